import fc from "fast-check";
import { expect, test } from "vitest";
import { createParsed, pieces } from "./parsed.ts";

const signal = new AbortController().signal;

/** An engine that answers what it is told to. */
function engine(): { say(value: unknown): void; ask(): Promise<unknown>; reads(): number } {
  let body = "";
  let reads = 0;
  const looked = createParsed({
    get: () => (body === "" ? Promise.reject(new Error("gone")) : Promise.resolve(Buffer.from(body))),
    close: () => undefined,
  });
  const read = (raw: unknown): unknown => {
    reads += 1;
    return raw;
  };
  return {
    say: (value) => (body = typeof value === "string" ? value : JSON.stringify(value)),
    ask: () => looked({ path: "/x", read }, signal),
    reads: () => reads,
  };
}

const mount = (target: string): object => ({ Type: "bind", Source: `/a "quoted" } ] \\ ${target}`, Destination: target, RW: true });

test("the same answer is read once, whatever the order of its mounts", async () => {
  const docker = engine();
  docker.say({ Id: "1", Mounts: [mount("/a"), mount("/b"), mount("/c")], Config: {} });
  const first = await docker.ask();
  docker.say({ Id: "1", Mounts: [mount("/c"), mount("/a"), mount("/b")], Config: {} });
  expect(await docker.ask()).toBe(first);
  expect(docker.reads()).toBe(1);
});

test("any other answer is read anew, and so is the same one after a failure", async () => {
  const docker = engine();
  docker.say({ Id: "1", HostConfig: { Memory: 1 } });
  const first = await docker.ask();
  docker.say({ Id: "1", HostConfig: { Memory: 2 } });
  expect(await docker.ask()).toStrictEqual({ Id: "1", HostConfig: { Memory: 2 } });
  docker.say({ Id: "1", HostConfig: { Memory: 1 } });
  expect(await docker.ask()).toStrictEqual(first);
  docker.say("");
  await expect(docker.ask()).rejects.toThrow("gone");
  docker.say({ Id: "1", HostConfig: { Memory: 1 } });
  await docker.ask();
  expect(docker.reads()).toBe(4);
});

test("what is no JSON is handed on as text", async () => {
  const docker = engine();
  docker.say("<html>");
  expect(await docker.ask()).toBe("<html>");
});

const text = fc.oneof(fc.string(), fc.constantFrom('"Mounts":[', '"Mounts":[{', "]", '\\"', "}", '{"Mounts":[{}]}'));
const mounts = fc.array(fc.record({ Source: text, Destination: text, RW: fc.boolean() }), { maxLength: 4 });
const answer = fc.record({
  Id: text,
  HostConfig: fc.record({ Mounts: fc.array(fc.record({ Bind: fc.record({ a: text }) })) }),
  Mounts: mounts,
  Env: fc.array(text),
});

test("the pieces are those of the answer, and the same for every order of its mounts only", () => {
  fc.assert(
    fc.property(answer, fc.func(fc.nat()), (given, rank) => {
      const plain = pieces(JSON.stringify(given));
      const other = { ...given, Mounts: given.Mounts.toSorted((a, b) => rank(a) - rank(b)) };
      expect(pieces(JSON.stringify(other))).toStrictEqual(plain);
      const letters = (text: string): string => text.replaceAll(",", "").split("").toSorted().join("");
      expect(letters(plain.join(""))).toBe(letters(JSON.stringify(given)));
    }),
  );
});

test("two answers that differ in anything else have other pieces", () => {
  fc.assert(
    fc.property(answer, answer, (one, two) => {
      const sorted = (given: typeof one): string =>
        JSON.stringify({ ...given, Mounts: given.Mounts.map((each) => JSON.stringify(each)).toSorted() });
      const alike = JSON.stringify(pieces(JSON.stringify(one))) === JSON.stringify(pieces(JSON.stringify(two)));
      expect(alike).toBe(sorted(one) === sorted(two));
    }),
  );
});
