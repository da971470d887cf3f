import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../clock.ts";
import { createDiskWatch, measure } from "./usage.ts";

let folder = "";
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "beige-usage-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const mebibytes = async (path = folder): Promise<number> => Math.round(((await measure(path, systemClock))?.bytes ?? -1) / 2 ** 20);

test("what takes room counts once: not the size of a hole, not a second name, not what a link leads to", async () => {
  const path = join(folder, "work");
  mkdirSync(join(path, "a/b"), { recursive: true });
  writeFileSync(join(folder, "outside"), Buffer.alloc(8 << 20));
  writeFileSync(join(path, "a/b/file"), Buffer.alloc(3 << 20));
  writeFileSync(Buffer.concat([Buffer.from(`${path}/a/`), Buffer.from([0xff, 0xfe])]), Buffer.alloc(2 << 20));
  linkSync(join(path, "a/b/file"), join(path, "again"));
  symlinkSync(join(folder, "outside"), join(path, "link"));
  symlinkSync(folder, join(path, "up"));
  writeFileSync(join(path, "hole"), "");
  truncateSync(join(path, "hole"), 1 << 30);
  expect(await mebibytes(path)).toBe(5);
  expect(await measure(path, systemClock)).toMatchObject({ entries: 8, whole: true });
  expect(await measure(join(path, "up"), systemClock)).toBeUndefined();
  expect(await measure(join(path, "nowhere"), systemClock)).toBeUndefined();
});

test("a tree without end is measured as far as is possible, and says that there is more", async () => {
  let deep = folder;
  for (let at = 0; at < 300; at += 1) deep = join(deep, "d");
  mkdirSync(deep, { recursive: true });
  expect(await measure(folder, systemClock)).toStrictEqual({
    bytes: expect.any(Number),
    whole: false,
    entries: 129,
    beyond: "folders in more than 128 others",
  });
  rmSync(join(folder, "d"), { recursive: true });
  for (let at = 0; at < 4000; at += 1) writeFileSync(join(folder, `f${at}`), "");
  let now = 0;
  const slow = { ...systemClock, monotonic: () => (now += 20_000), sleep: () => Promise.resolve() };
  expect(await measure(folder, slow)).toStrictEqual({ bytes: expect.any(Number), whole: false, entries: 3000 });
});

test("folders that become links while they are measured add nothing from elsewhere", async () => {
  const victim = join(folder, "victim");
  mkdirSync(victim);
  writeFileSync(join(victim, "much"), Buffer.alloc(32 << 20));
  const path = join(folder, "work");
  for (let at = 0; at < 20; at += 1) mkdirSync(join(path, `d${at}/sub`), { recursive: true });
  const stop = new AbortController();
  const swap = (async () => {
    while (!stop.signal.aborted)
      for (let at = 0; at < 20; at += 1) {
        const name = join(path, `d${at}`);
        await rename(name, `${name}.away`).catch(() => undefined);
        await symlink(victim, name).catch(() => undefined);
        await rm(name).catch(() => undefined);
        await rename(`${name}.away`, name).catch(() => undefined);
      }
  })();
  let most = 0;
  for (let round = 0; round < 60; round += 1) most = Math.max(most, await mebibytes(path));
  stop.abort();
  await swap;
  expect(most).toBeLessThan(4);
});

test("the watch answers what it knows at once, looks again when that is old, and sooner where there is too much", async () => {
  let now = 0;
  const used = createDiskWatch({ ...systemClock, monotonic: () => now });
  const bytes = (): number | undefined => used(folder, 1 << 20)?.bytes;
  writeFileSync(join(folder, "file"), Buffer.alloc(2 << 20));
  expect(bytes()).toBeUndefined();
  await expect.poll(bytes).toBe(2 << 20);
  rmSync(join(folder, "file"));
  expect(bytes()).toBe(2 << 20);
  now += 3000;
  await expect.poll(bytes).toBe(0);
  writeFileSync(join(folder, "file"), Buffer.alloc(2 << 20));
  now += 3000;
  await new Promise((done) => setTimeout(done, 50));
  expect(bytes()).toBe(0);
  now += 60_000;
  await expect.poll(bytes).toBe(2 << 20);
});

test("what is hidden below folders without end is looked at as soon as what is too much, and whoever takes long to measure waits for the others", async () => {
  let now = 0;
  let stepMs = 0;
  const used = createDiskWatch({ ...systemClock, monotonic: () => (now += stepMs), sleep: () => Promise.resolve() });
  mkdirSync(join(folder, Array.from({ length: 130 }, () => "d").join("/")), { recursive: true });
  const beyond = (): boolean | undefined => used(folder, 1 << 30) && used(folder, 1 << 30)?.beyond !== undefined;
  await expect.poll(beyond).toBe(true);
  rmSync(join(folder, "d"), { recursive: true });
  for (let at = 0; at < 1100; at += 1) writeFileSync(join(folder, `f${at}`), "");
  stepMs = 10_000;
  await expect.poll(beyond).toBe(false);
  stepMs = 0;
  const before = used(folder, 1 << 30)?.entries;
  rmSync(join(folder, "f0"));
  now += 61_000;
  await new Promise((done) => setTimeout(done, 100));
  expect(used(folder, 1 << 30)?.entries).toBe(before);
  now += 600_000;
  await expect.poll(() => used(folder, 1 << 30)?.entries).toBe((before ?? 0) - 1);
});
