import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDigests, createListings, FILE_MAX, sha256 } from "./digests.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-digests-"));
  path = join(folder, "file");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a change of the same length is seen at once, and also after the digest was kept and the file's time was set back", async () => {
  const digest = createDigests();
  writeFileSync(path, "one");
  expect(digest(path)).toMatchObject({ sha256: sha256("one"), length: 3 });
  writeFileSync(path, "two");
  expect(digest(path)?.sha256).toBe(sha256("two"));
  utimesSync(path, 1000, 1000);
  await pause(1100);
  expect(digest(path)?.sha256).toBe(sha256("two"));
  writeFileSync(path, "six");
  utimesSync(path, 1000, 1000);
  expect(digest(path)?.sha256).toBe(sha256("six"));
});

test("another file in its place is another file, and none is none", async () => {
  const digest = createDigests();
  writeFileSync(path, "one");
  writeFileSync(`${path}.new`, "two");
  await pause(1100);
  expect(digest(path)?.sha256).toBe(sha256("one"));
  renameSync(`${path}.new`, path);
  expect(digest(path)?.sha256).toBe(sha256("two"));
  rmSync(path);
  expect(digest(path)).toBeUndefined();
  expect(digest(join(path, "below"))).toBeUndefined();
});

test("links, folders and what is too large are refused", () => {
  const digest = createDigests();
  symlinkSync("/etc/passwd", path);
  expect(() => digest(path)).toThrow(/cannot read/);
  expect(() => digest(folder)).toThrow(/is not a file/);
  writeFileSync(`${path}.large`, Buffer.alloc(FILE_MAX + 1));
  expect(() => digest(`${path}.large`)).toThrow(/is larger than/);
});

test("what comes, goes, leads elsewhere or takes the place of a folder is seen at once, also after the list was kept", async () => {
  const list = createListings();
  const kept = join(folder, "kept");
  mkdirSync(join(kept, "inner"), { recursive: true });
  symlinkSync("/a", join(kept, "link"));
  const names = (): unknown =>
    list(kept)
      ?.map(({ name, is, to }) => [name, is, to])
      .toSorted();
  expect(names()).toEqual([
    ["inner", "folder", undefined],
    ["link", "link", "/a"],
  ]);
  await pause(1100);
  const same = list(kept);
  expect(list(kept)).toBe(same);
  symlinkSync("/b", join(kept, "new"));
  renameSync(join(kept, "new"), join(kept, "link"));
  writeFileSync(join(kept, "file"), "");
  rmSync(join(kept, "inner"), { recursive: true });
  utimesSync(kept, 1000, 1000);
  expect(names()).toEqual([
    ["file", "file", undefined],
    ["link", "link", "/b"],
  ]);
  await pause(1100);
  expect(list(kept)).toHaveLength(2);
  renameSync(kept, `${kept}.old`);
  mkdirSync(kept);
  expect(list(kept)).toEqual([]);
  rmSync(kept, { recursive: true });
  symlinkSync(`${kept}.old`, kept);
  expect(list(kept)).toBeUndefined();
});
