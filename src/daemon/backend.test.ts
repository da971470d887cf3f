import { expect, test } from "vitest";
import { kinds } from "../../controllers/index.ts";
import { keepSpec, normaliseSpec } from "../core/normalise.ts";
import { schemaSet } from "../core/schema.ts";
import { defaultBackend, kindsFor } from "./backend.ts";

const SPEC = { model: { provider: "p", id: "m" } };
const schemas = (backend?: string) => schemaSet(kindsFor(kinds, { BEIGE_SANDBOX: backend }).map(({ schema }) => schema));
const backendOf = (spec: unknown): string => (spec as { sandbox: { backend: string } }).sandbox.backend;

test("a manifest that names no backend gets the gateway's, one that does has its own", () => {
  expect(backendOf(normaliseSpec("Agent", SPEC, schemas()))).toBe("docker");
  expect(backendOf(normaliseSpec("Agent", SPEC, schemas("bwrap")))).toBe("bwrap");
  expect(backendOf(normaliseSpec("Agent", { ...SPEC, sandbox: { backend: "docker" } }, schemas("bwrap")))).toBe("docker");
});

test("what is stored stays where it is, whatever the gateway's default is now", () => {
  const stored = normaliseSpec("Agent", SPEC, schemas());
  expect(normaliseSpec("Agent", stored, schemas("bwrap"))).toStrictEqual(stored);
  for (const sent of [SPEC, { ...SPEC, sandbox: {} }, { ...SPEC, sandbox: { image: "x" } }]) {
    const kept = keepSpec("Agent", sent, stored, schemas("bwrap"));
    expect(backendOf(normaliseSpec("Agent", kept, schemas("bwrap")))).toBe("docker");
  }
  expect(backendOf(keepSpec("Agent", { ...SPEC, sandbox: { backend: "bwrap" } }, stored, schemas()))).toBe("bwrap");
  expect(keepSpec("Agent", SPEC, undefined, schemas("bwrap"))).toStrictEqual(SPEC);
});

test("there is no backend that does not isolate", () => {
  for (const word of ["none", "host", "Docker", " "])
    expect(() => defaultBackend({ BEIGE_SANDBOX: word }), word).toThrow("BEIGE_SANDBOX is");
  expect([defaultBackend({}), defaultBackend({ BEIGE_SANDBOX: "" })]).toStrictEqual(["docker", "docker"]);
});
