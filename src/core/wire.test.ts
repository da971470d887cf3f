import fc from "fast-check";
import { expect, test } from "vitest";
import { createWire } from "./wire.ts";

const bytes = (text: string): Buffer => Buffer.from(text, "latin1");
const HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

function read(parts: readonly Buffer[]): { body: string; done: boolean; status: number | undefined } {
  const wire = createWire({ name: "the gateway", hint: "beige gateway restart" });
  const body = parts.flatMap((part) => [...wire.push(part)]);
  return { body: Buffer.concat(body).toString("latin1"), done: wire.done(), status: wire.head()?.status };
}

test("a chunked body is whole only with its last chunk", () => {
  expect(read([bytes(`${HEAD}5\r\nhello\r\n0\r\n\r\n`)])).toEqual({ body: "hello", done: true, status: 200 });
  expect(read([bytes(`${HEAD}5\r\nhello\r\n`)]).done).toBe(false);
  expect(read([bytes(`${HEAD}5\r\nhello\r\n0\r\n`)]).done).toBe(false);
});

test("chunk extensions, trailers and 1xx answers are understood", () => {
  const text = `HTTP/1.1 100 Continue\r\n\r\n${HEAD}5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n`;
  expect(read([bytes(text)])).toEqual({ body: "hello", done: true, status: 200 });
});

test("a length counts bytes, and none at all is an empty body", () => {
  expect(read([bytes("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nab")]).done).toBe(false);
  expect(read([bytes("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc")])).toEqual({ body: "abc", done: true, status: 404 });
  expect(read([bytes("HTTP/1.1 204 No Content\r\n\r\n")]).done).toBe(true);
});

test("an answer that does not say where it ends is refused, as is what is no HTTP", () => {
  for (const text of [
    "HTTP/1.1 200 OK\r\n\r\n",
    "SSH-2.0-x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    `${HEAD}zz\r\n`,
    `${HEAD}-5\r\n`,
    `${HEAD}ffffffffffffff\r\n`,
    `${HEAD}2\r\nhello\r\n`,
  ]) {
    expect(() => read([bytes(text)]), text).toThrow(/broken/);
  }
});

test("a head or a chunk line without end is cut off, not collected", () => {
  expect(() => read([bytes("HTTP/1.1 200 OK\r\n"), Buffer.alloc(70_000, 97)])).toThrow(/longer than 64 KiB/);
  expect(() => read([bytes(HEAD), Buffer.alloc(5000, 49)])).toThrow(/too long/);
});

test("the body does not depend on how the bytes arrive", () => {
  const chunks = fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 8 });
  fc.assert(
    fc.property(chunks, fc.array(fc.nat(2000), { maxLength: 12 }), (parts, cuts) => {
      const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
      const framed = parts.map((part) => Buffer.concat([bytes(`${part.length.toString(16)}\r\n`), Buffer.from(part), bytes("\r\n")]));
      const whole = Buffer.concat([bytes(HEAD), ...framed, bytes("0\r\n\r\n")]);
      const at = [0, ...cuts.map((cut) => cut % (whole.length + 1)), whole.length].toSorted((a, b) => a - b);
      const wire = createWire({ name: "the gateway", hint: "beige gateway restart" });
      const got = at.slice(1).flatMap((end, i) => [...wire.push(whole.subarray(at[i], end))].map((part) => Buffer.from(part)));
      expect(wire.done()).toBe(true);
      expect(Buffer.concat(got).equals(body)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test("every cut of an answer is seen as a cut", () => {
  const whole = bytes(`${HEAD}5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n`);
  for (let end = 0; end < whole.length; end++) expect(read([whole.subarray(0, end)]).done, `cut at ${end}`).toBe(false);
});
