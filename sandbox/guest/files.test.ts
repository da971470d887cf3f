// The guest's file access, run as a plain process.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { execFileSync, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestPath } from "../guest.ts";
import { plain } from "./fixture.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-files-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string): string => join(folder, name);
const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 7 + (i >> 8)) & 255));

test("a file goes in and out byte for byte", async () => {
  expect((await plain(["put", at("a/b/c")], { input: bytes })).code).toBe(0);
  expect(readFileSync(at("a/b/c")).equals(bytes)).toBe(true);
  expect((await plain(["cat", at("a/b/c")])).stdout.equals(bytes)).toBe(true);
  expect((await plain(["cat", at("a/b/c"), "99990", "100"])).stdout.equals(bytes.subarray(99_990))).toBe(true);
  expect((await plain(["cat", at("a/b/c"), "10", "5"])).stdout.equals(bytes.subarray(10, 15))).toBe(true);
  expect((await plain(["cat", at("a/b/c"), "200000", "5"])).stdout.length).toBe(0);
  expect((await plain(["put", at("empty")])).code).toBe(0);
  expect(statSync(at("empty")).size).toBe(0);
});

test("an existing file keeps its mode, a new one gets the usual one, and nothing else is left", async () => {
  writeFileSync(at("script"), "old");
  chmodSync(at("script"), 0o751);
  await plain(["put", at("script")], { input: Buffer.from("new") });
  expect([statSync(at("script")).mode & 0o7777, readFileSync(at("script"), "utf8")]).toStrictEqual([0o751, "new"]);
  expect(statSync(at("empty")).mode & 0o777).toBe(0o666 & ~process.umask());
  expect(readdirSync(folder).filter((name) => name.startsWith(".beige"))).toStrictEqual([]);
});

test("a write through a link changes the file behind it, also one that is not there yet", async () => {
  writeFileSync(at("real"), "old");
  symlinkSync("real", at("link"));
  symlinkSync("fresh", at("dangling"));
  symlinkSync("loop", at("loop"));
  await plain(["put", at("link")], { input: Buffer.from("through") });
  await plain(["put", at("dangling")], { input: Buffer.from("made") });
  expect([readFileSync(at("real"), "utf8"), readFileSync(at("fresh"), "utf8")]).toStrictEqual(["through", "made"]);
  expect((await plain(["put", at("loop")])).code).not.toBe(0);
});

test("each refusal names the path and has its own exit code", async () => {
  mkdirSync(at("dir"));
  execFileSync("mkfifo", [at("fifo")]);
  const said = async (...args: readonly string[]): Promise<readonly [number | null, string]> => {
    const { code, stderr } = await plain(args);
    return [code, stderr.toString()];
  };
  expect(await said("cat", at("none"))).toStrictEqual([3, `beige: ${at("none")}: No such file or directory\n`]);
  expect(await said("cat", at("dir"))).toStrictEqual([4, `beige: ${at("dir")}: Is a directory\n`]);
  expect(await said("put", at("dir"))).toStrictEqual([4, `beige: ${at("dir")}: Is a directory\n`]);
  expect(await said("put", `${at("new")}/`)).toStrictEqual([4, `beige: ${at("new")}/: Is a directory\n`]);
  expect(await said("cat", at("fifo"))).toStrictEqual([4, `beige: ${at("fifo")}: not a regular file\n`]);
  expect(await said("cat", "/dev/zero")).toStrictEqual([4, "beige: /dev/zero: not a regular file\n"]);
  expect(await said("put", "/dev/null")).toStrictEqual([4, "beige: /dev/null: not a regular file\n"]);
  expect((await said("put", at("real/below")))[0]).toBe(3);
  expect((await said("cat", at("a/b/c"), "--max", "5"))[0]).toBe(2);
  expect((await said("cat", "--max", "5", at("a/b/c")))[0]).toBe(6);
  expect((await said("cat", at("a/b/c"), "-1", "5"))[0]).toBe(2);
  expect((await said("put"))[0]).toBe(2);
});

test("a write over its limit or short of its size changes nothing", async () => {
  writeFileSync(at("kept"), "kept");
  expect((await plain(["put", "--max", "3", at("kept")], { input: Buffer.from("four") })).code).toBe(6);
  expect((await plain(["put", "--size", "5", at("kept")], { input: Buffer.from("four") })).code).toBe(1);
  expect((await plain(["put", "--max", "4", "--size", "4", "--", at("kept")], { input: Buffer.from("four") })).code).toBe(0);
  expect(readFileSync(at("kept"), "utf8")).toBe("four");
});

test("a write that is told to end leaves the old file and no temporary one", async () => {
  writeFileSync(at("old"), "old");
  const child = spawn(guestPath(), ["put", at("old")], { argv0: "tool-client" });
  child.stdin.write("half");
  await expect.poll(() => readdirSync(folder).some((name) => name.startsWith(".beige-put"))).toBe(true);
  child.kill("SIGTERM");
  await new Promise((resolve) => child.on("close", resolve));
  expect(readFileSync(at("old"), "utf8")).toBe("old");
  expect(readdirSync(folder).some((name) => name.startsWith(".beige-put"))).toBe(false);
});

test("a file says what it is in one line of JSON", async () => {
  writeFileSync(at("told"), "12345", { mode: 0o640 });
  const { stdout } = await plain(["stat", at("told")]);
  expect(JSON.parse(stdout.toString())).toMatchObject({ type: "file", size: 5, mode: "0640" });
  expect(JSON.parse((await plain(["stat", at("link")])).stdout.toString())).toMatchObject({ type: "link" });
  expect((await plain(["stat", at("none")])).code).toBe(3);
  expect(existsSync(at("none"))).toBe(false);
});
