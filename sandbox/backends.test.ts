import { expect, test } from "vitest";
import { BeigeError } from "../src/core/errors.ts";
import type { Sandbox, SandboxSpec } from "../src/core/sandbox.ts";
import { createBackends } from "./backends.ts";

const BWRAP = `bwrap-${"0".repeat(32)}`;
const named = (name: string, more: Partial<Sandbox> = {}): Sandbox =>
  ({
    list: () => Promise.resolve([{ id: name === "bwrap" ? BWRAP : "d0", name, labels: {}, state: "running" }]),
    inspect: () => Promise.resolve({ id: name }),
    create: () => Promise.resolve(name),
    image: () => Promise.resolve(name),
    lacks: () => [name],
    ...more,
  }) as unknown as Sandbox;
const gone = (code: "unavailable" | "internal") => ({ list: () => Promise.reject(new BeigeError(code, "no engine")) });

test("each sandbox is its own backend's by its id, and a new one goes where its spec says", async () => {
  const both = createBackends({ docker: named("docker"), bwrap: named("bwrap"), needsDocker: () => true });
  expect((await both.list("s")).map(({ name }) => name)).toStrictEqual(["docker", "bwrap"]);
  expect([(await both.inspect(BWRAP))?.id, (await both.inspect("d0"))?.id]).toStrictEqual(["bwrap", "docker"]);
  expect([both.lacks?.(BWRAP), both.lacks?.("bwrap-something-else")]).toStrictEqual([["bwrap"], ["docker"]]);
  const spec = {} as SandboxSpec;
  expect([await both.create(spec), await both.create({ ...spec, backend: "bwrap" })]).toStrictEqual(["docker", "bwrap"]);
  expect([await both.image("x"), await both.image("x", undefined, "bwrap")]).toStrictEqual(["docker", "bwrap"]);
});

test("an engine that does not answer is told where it is needed, and hinders nobody where it is not", async () => {
  for (const [needed, code, answer] of [
    [true, "unavailable", "unavailable"],
    [false, "unavailable", "bwrap"],
    [false, "internal", "internal"],
  ] as const) {
    const both = createBackends({ docker: named("docker", gone(code)), bwrap: named("bwrap"), needsDocker: () => needed });
    const listed = both.list("s").then(
      (found) => found.map(({ name }) => name).join(),
      (error: unknown) => (error as BeigeError).code,
    );
    expect(await listed).toBe(answer);
  }
});
