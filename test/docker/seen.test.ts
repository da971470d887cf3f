// What a look says of a container is what the engine has at that moment: nothing that was seen before is ever taken for it.
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { SandboxSeen } from "../../src/core/sandbox.ts";
import { openGround, type Ground } from "./ground.ts";

const docker = (...args: string[]): void => void execFileSync("docker", args, { stdio: ["ignore", "ignore", "pipe"] });

let ground: Ground;
let id: string;
beforeAll(() => {
  ground = openGround();
});
afterAll(() => ground.cleanup());
beforeEach(async () => {
  id = await ground.up();
  // Looked at often, as by a gateway that has been at work for a while.
  for (let i = 0; i < 5; i++) await ground.sandbox.inspect(id);
});

const seen = async (): Promise<SandboxSeen> => {
  const box = await ground.sandbox.inspect(id);
  if (box === undefined) throw new Error("it is gone");
  return box;
};
const listed = async () => (await ground.sandbox.list(ground.store)).find((box) => box.id === id);

test("what nobody touched is the very same, and a list agrees", async () => {
  const first = await seen();
  for (let i = 0; i < 30; i++) expect(await seen()).toBe(first);
  expect(await listed()).toMatchObject({ id, name: first.spec.name, state: "running" });
});

test("a look right after a hand's change sees the change", async () => {
  const { spec, startedAt } = await seen();
  docker("update", "--memory", "64m", "--memory-swap", "64m", id);
  expect((await seen()).spec.memoryBytes).toBe(64 << 20);
  docker("update", "--cpus", "0.5", id);
  expect((await seen()).spec.cpus).toBe(0.5);
  docker("update", "--pids-limit", "77", id);
  expect((await seen()).spec.pids).toBe(77);
  docker("rename", id, `${spec.name}-x`);
  expect((await seen()).spec.name).toBe(`${spec.name}-x`);
  expect(await listed()).toMatchObject({ name: `${spec.name}-x` });
  docker("pause", id);
  expect((await seen()).state).toBe("paused");
  expect(await listed()).toMatchObject({ state: "paused" });
  docker("unpause", id);
  expect((await seen()).state).toBe("running");
  docker("restart", "--time", "1", id);
  expect((await seen()).startedAt).not.toBe(startedAt);
  docker("kill", id);
  expect(await seen()).toMatchObject({ state: "exited", exitCode: 137 });
  expect(await listed()).toMatchObject({ state: "exited" });
  docker("start", id);
  expect((await seen()).state).toBe("running");
  docker("stop", "--time", "1", id);
  expect((await seen()).state).toBe("exited");
  docker("rm", id);
  expect(await ground.sandbox.inspect(id)).toBeUndefined();
  expect(await listed()).toBeUndefined();
});

test("a look right after a network was connected or cut off sees that", async () => {
  const open = await ground.up({ network: "open" });
  const network = `beige-test-${ground.store.slice(5)}`;
  docker("network", "create", network);
  try {
    const before = await ground.sandbox.inspect(open);
    expect(before?.spec.hardening ?? []).not.toContain(`network=${network}`);
    docker("network", "connect", network, open);
    expect((await ground.sandbox.inspect(open))?.spec.hardening).toContain(`network=${network}`);
    docker("network", "disconnect", network, open);
    expect((await ground.sandbox.inspect(open))?.spec).toStrictEqual(before?.spec);
    docker("network", "disconnect", "bridge", open);
    expect((await ground.sandbox.inspect(open))?.spec.network).toBe("none");
  } finally {
    docker("rm", "-f", open);
    docker("network", "rm", network);
  }
});

test("two changes that leave the state as it was are two different looks", async () => {
  const before = await seen();
  docker("update", "--memory", "64m", "--memory-swap", "64m", id);
  docker("update", "--memory", "128m", "--memory-swap", "128m", id);
  expect(await seen()).toStrictEqual(before);
  const [one, two] = await Promise.all([seen(), seen()]);
  expect(one).toStrictEqual(two);
});
