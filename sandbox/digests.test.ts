import { mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDigests, FILE_MAX, sha256 } from "./digests.ts";

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
