import fc from "fast-check";
import { expect, test } from "vitest";
import { parseBody } from "./body.ts";

const parse = (text: string) => parseBody(new TextEncoder().encode(text), 200);

test("any plain JSON value comes through unchanged", () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const text = JSON.stringify(value);
      if (/__proto__|prototype|constructor/.test(text)) return;
      expect(parse(text)).toEqual(JSON.parse(text));
    }),
  );
});

test.each([
  '{"__proto__":{"x":1}}',
  '{"a":[{"\\u005f_proto__":1}]}',
  '{"constructor":{"prototype":{"x":1}}}',
  '{"metadata":{"labels":{"prototype":"x"}}}',
])("prototype keys in %s are refused and pollute nothing", (text) => {
  expect(() => parse(text)).toThrow(/is not allowed/);
  expect(({} as Record<string, unknown>).x).toBeUndefined();
});

test("a nesting bomb is an ordinary refusal", () => {
  const started = performance.now();
  for (const open of ["[", '{"a":']) {
    const text = open.repeat(400_000) + "1" + (open === "[" ? "]" : "}").repeat(400_000);
    expect(() => parse(text)).toThrow(/nested|not JSON/);
  }
  expect(performance.now() - started).toBeLessThan(4_000);
});

test.each(["{", "{'a':1}", "nul", "[1,]", "a: 1\nb: 2"])("%j is refused without being quoted back", (text) => {
  expect(() => parse(text)).toThrow(/the request body is not JSON/);
});

test("bytes that are not UTF-8 are refused", () => {
  expect(() => parseBody(new Uint8Array([0x22, 0xff, 0x22]), 200)).toThrow("not UTF-8");
});

test("no bytes are no body", () => {
  expect(parse("")).toBeUndefined();
});

test("an object of more keys than anybody needs is refused before it is copied", () => {
  const wide = (keys: number): Uint8Array =>
    Buffer.from(JSON.stringify({ a: Object.fromEntries(Array.from({ length: keys }, (_, i) => [`k${i}`, 1])) }));
  expect(parseBody(wide(10_000), 200)).toBeDefined();
  expect(() => parseBody(wide(10_001), 200)).toThrow("an object in the request body has more than 10000 keys");
});
