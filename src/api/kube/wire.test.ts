import fc from "fast-check";
import { expect, test } from "vitest";
import { BeigeError } from "../../core/errors.ts";
import { decodeBody, understood } from "./decode.ts";
import { message, parse } from "./wire.ts";

test("what is written is read back, nested or not", () => {
  fc.assert(
    fc.property(fc.string(), fc.string({ maxLength: 300 }), fc.integer({ min: 1, max: 500 }), (a, b, number) => {
      const read = parse(message([number, a.toWellFormed()], [number + 1, message([1, b.toWellFormed()])], [number + 2, true]));
      expect([read.text(number), read.inner(number + 1).text(1)]).toEqual([a.toWellFormed(), b.toWellFormed()]);
    }),
  );
});

test("any bytes are a message or a refusal, never a crash or a long wait", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
      for (const read of [() => parse(bytes).inner(2).text(1), () => decodeBody(Buffer.concat([Buffer.from("k8s\0"), bytes]))]) {
        try {
          read();
        } catch (error) {
          expect(error).toBeInstanceOf(BeigeError);
          expect((error as BeigeError).code).toBe("invalid");
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("a message of many fields is refused before it costs anything", () => {
  const many = Buffer.alloc(2 * 20_000, Uint8Array.of(8, 1));
  expect(() => parse(many)).toThrow(/too many fields/);
});

const body = (apiVersion: string, kind: string, raw: Uint8Array): Uint8Array =>
  Buffer.concat([Buffer.from("k8s\0"), message([1, message([1, apiVersion], [2, kind])], [2, raw])]);

test("a Namespace is read with its labels and annotations", () => {
  const entry = (key: string, value: string): Uint8Array => message([1, key], [2, value]);
  const metadata = message([1, "team"], [11, entry("a", "1")], [11, entry("__proto__", "2")], [12, entry("note", "x")]);
  const read = decodeBody(body("v1", "Namespace", message([1, metadata]))) as { metadata: { labels: object } };
  expect(Object.entries(read.metadata.labels)).toEqual([
    ["a", "1"],
    ["__proto__", "2"],
  ]);
  expect(read).toMatchObject({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team", annotations: { note: "x" } } });
});

test("questions about oneself are read in full", () => {
  const asked = message([1, "default"], [2, "create"], [3, "beige.dev"], [4, "v1"], [5, "agents"], [7, "travel"]);
  expect(decodeBody(body("authorization.k8s.io/v1", "SelfSubjectAccessReview", message([2, message([1, asked])])))).toMatchObject({
    spec: { resourceAttributes: { namespace: "default", verb: "create", group: "beige.dev", resource: "agents", name: "travel" } },
  });
  const path = message([1, "/healthz"], [2, "get"]);
  expect(decodeBody(body("authorization.k8s.io/v1", "SelfSubjectAccessReview", message([2, message([2, path])])))).toMatchObject({
    spec: { nonResourceAttributes: { path: "/healthz", verb: "get" } },
  });
});

test("other kinds in protocol buffers are refused, since their content would be lost", () => {
  expect(() => decodeBody(body("v1", "ConfigMap", new Uint8Array()))).toThrow(/ConfigMap/);
  expect(() => decodeBody(body("v1", "constructor", new Uint8Array()))).toThrow(/constructor/);
  expect(understood("/api/v1/namespaces?fieldManager=x")).toBe(true);
  for (const url of ["/api/v1/namespaces/a/configmaps", "/api/v1/namespacesx", "/apis/beige.dev/v1/agents"])
    expect(understood(url)).toBe(false);
});
