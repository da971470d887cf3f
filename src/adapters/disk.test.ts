import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "./clock.ts";
import { createWorkspaces } from "./disk.ts";

let folder = "";
const disk = createWorkspaces(systemClock);
const root = process.getuid?.() === 0;
const owner = { uid: root ? 20_123 : (process.getuid?.() ?? 0), gid: root ? 20_123 : (process.getgid?.() ?? 0) };
beforeEach(() => (folder = realpathSync(mkdtempSync(join(tmpdir(), "beige-disk-")))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a new folder is closed and belongs to the sandbox's user; its parents stay the gateway's", async () => {
  const path = join(folder, "agents/default.travel/workspace");
  await disk.create(path, owner);
  expect(statSync(path)).toMatchObject({ uid: owner.uid, gid: owner.gid });
  expect(statSync(path).mode & 0o777).toBe(0o700);
  expect(statSync(join(folder, "agents")).uid).toBe(process.getuid?.());
});

test("an existing folder stays as it is", async () => {
  const path = join(folder, "mine");
  mkdirSync(path, { mode: 0o755 });
  writeFileSync(join(path, "keep"), "x");
  await disk.create(path, owner);
  expect(statSync(path)).toMatchObject({ uid: process.getuid?.() });
  expect(readFileSync(join(path, "keep"), "utf8")).toBe("x");
});

test("a link or a file in its place is refused, and what it leads to is untouched", async () => {
  mkdirSync(join(folder, "victim"));
  symlinkSync(join(folder, "victim"), join(folder, "link"));
  symlinkSync(join(folder, "nowhere"), join(folder, "dangling"));
  writeFileSync(join(folder, "file"), "");
  for (const name of ["link", "dangling", "file"]) {
    await expect(disk.create(join(folder, name), owner), name).rejects.toMatchObject({ code: "invalid" });
    await expect(disk.remove(join(folder, name)), name).rejects.toMatchObject({ code: "invalid" });
  }
  expect(statSync(join(folder, "victim")).uid).toBe(process.getuid?.());
});

test("what is seen has its links resolved, as far as it exists", async () => {
  mkdirSync(join(folder, "real"));
  symlinkSync(join(folder, "real"), join(folder, "link"));
  expect(await disk.seen(join(folder, "link/a/b"))).toEqual({
    real: join(folder, "real/a/b"),
    exists: false,
    folder: false,
    uid: -1,
    gid: -1,
  });
  expect(await disk.seen(join(folder, "link"))).toMatchObject({ real: join(folder, "real"), exists: true, folder: true });
});

test("a folder goes with all in it: deep, closed and full of links that are not followed", async () => {
  const path = join(folder, "workspace");
  const victim = join(folder, "victim");
  mkdirSync(victim);
  writeFileSync(join(victim, "keep"), "x");
  let deep = path;
  for (let at = 0; at < 150; at += 1) deep = join(deep, "deep");
  mkdirSync(deep, { recursive: true });
  symlinkSync(victim, join(path, "link"));
  symlinkSync(victim, join(deep, "link"));
  mkdirSync(join(path, "closed"));
  writeFileSync(join(path, "closed/file"), "x");
  chmodSync(join(path, "closed"), 0);
  await disk.remove(path);
  expect(existsSync(path)).toBe(false);
  expect(readFileSync(join(victim, "keep"), "utf8")).toBe("x");
  await disk.remove(path);
});

test("an agent that swaps folders for links while its workspace is removed wins nothing", async () => {
  const victim = join(folder, "victim");
  mkdirSync(victim);
  writeFileSync(join(victim, "keep"), "x");
  for (let round = 0; round < 20; round += 1) {
    const path = join(folder, `w${round}`);
    for (let at = 0; at < 20; at += 1) mkdirSync(join(path, `d${at}/sub`), { recursive: true });
    const stop = new AbortController();
    const swap = (async () => {
      while (!stop.signal.aborted) {
        for (let at = 0; at < 20; at += 1) {
          const name = join(path, `d${at}`);
          await rename(name, `${name}.away`).catch(() => undefined);
          await symlink(victim, name).catch(() => undefined);
        }
      }
    })();
    await disk.remove(path).catch(() => undefined);
    stop.abort();
    await swap;
    await rm(path, { recursive: true, force: true });
    expect(lstatSync(join(victim, "keep")).isFile()).toBe(true);
  }
});

test("a retained workspace is given to the next agent whole, but what lies behind its links and what others own is not", async () => {
  const path = join(folder, "workspace");
  const victim = join(folder, "victim");
  mkdirSync(join(path, "a/b"), { recursive: true });
  writeFileSync(victim, "x");
  writeFileSync(join(path, "a/b/note"), "x");
  writeFileSync(join(path, "foreign"), "x");
  symlinkSync(victim, join(path, "link"));
  if (process.getuid?.() !== 0) return expect("give" in disk).toBe(false);
  for (const name of ["", "a", "a/b", "a/b/note", "link"]) lchownSync(join(path, name), 20_000, 20_000);
  await disk.give?.(path, { uid: 20_001, gid: 20_001 });
  const owners = ["", "a", "a/b", "a/b/note", "link", "foreign"].map((name) => lstatSync(join(path, name)).uid);
  expect(owners).toEqual([20_001, 20_001, 20_001, 20_001, 20_001, 0]);
  expect(lstatSync(victim).uid).toBe(0);
});

test("names that are no text are removed like all others", async () => {
  const path = join(folder, "bytes");
  mkdirSync(join(path, "in"), { recursive: true });
  writeFileSync(Buffer.concat([Buffer.from(`${path}/in/`), Buffer.from([0xff, 0xfe])]), "x");
  await disk.remove(path);
  expect(existsSync(path)).toBe(false);
});

test("what lies in the gateway's own home is seen in another way, and as the same", async () => {
  const own = createWorkspaces(systemClock, folder);
  mkdirSync(join(folder, "there"));
  writeFileSync(join(folder, "file"), "x");
  await symlink(join(folder, "there"), join(folder, "link"));
  await symlink(join(folder, "nowhere"), join(folder, "dangling"));
  for (const name of ["there", "file", "link", "dangling", "absent", "file/below", "link/below"]) {
    const path = join(folder, name);
    expect([name, await own.seen(path)]).toEqual([name, await disk.seen(path)]);
  }
  expect(await own.room?.(folder)).toEqual({ freeBytes: expect.any(Number), freeFiles: expect.any(Number) });
  expect(await own.room?.(join(folder, "absent"))).toBe(undefined);
});
