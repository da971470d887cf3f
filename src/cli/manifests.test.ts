import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Context } from "./flags.ts";
import { answerFiles, collect } from "./manifests.ts";

let cwd = "";
const put = (path: string, text = "a: 1\n"): void => {
  mkdirSync(join(cwd, path, ".."), { recursive: true });
  writeFileSync(join(cwd, path), text);
};
const context = (env: NodeJS.ProcessEnv = {}, stdin = ""): Context => ({ cwd, env, stdin: async () => stdin }) as unknown as Context;
const names = async (given: readonly string[], deep = false): Promise<readonly string[]> =>
  (await collect(context(), given, { deep })).map((file) => file.name);

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), "beige-manifests-"));
});
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

test("a folder gives its manifests in name order, without editors' leavings", async () => {
  for (const name of [
    "b.yaml",
    "a.yml",
    "c.json",
    ".#b.yaml",
    "b.yaml~",
    "4913",
    ".b.yaml.swp",
    "notes.md",
    "sub/d.yaml",
    ".git/e.yaml",
    "node_modules/f.yaml",
  ])
    put(`stacks/${name}`);
  expect(await names(["stacks"])).toEqual(["stacks/a.yml", "stacks/b.yaml", "stacks/c.json"]);
  expect(await names(["stacks/"], true)).toEqual(["stacks/a.yml", "stacks/b.yaml", "stacks/c.json", "stacks/sub/d.yaml"]);
});

test("globs, several -f and one file named twice are one list", async () => {
  put("x/a.yaml");
  put("x/b.yaml");
  expect(await names(["x/*.yaml", "x/a.yaml", "./x/b.yaml"])).toEqual(["x/a.yaml", "x/b.yaml"]);
  put("odd[1].yaml");
  expect(await names(["odd[1].yaml"])).toEqual(["odd[1].yaml"]);
});

test("what is not there, a network address and an empty folder are refused with the way out", async () => {
  put("deep/sub/a.yaml");
  await expect(names(["none.yaml"])).rejects.toMatchObject({ code: "invalid" });
  await expect(names(["*.nope"])).rejects.toMatchObject({ code: "invalid" });
  await expect(names(["https://example.com/a.yaml"])).rejects.toMatchObject({ hint: expect.stringContaining("-f -") as string });
  await expect(names(["deep"])).rejects.toMatchObject({ hint: expect.stringContaining("-R") as string });
  await expect(names([])).rejects.toMatchObject({ code: "invalid" });
});

test("only variables that the text names are sent", async () => {
  put("a.yaml", "x: ${KEY}\ny: ${OTHER:-1}\nz: $${HIDDEN}\n");
  const [file] = await collect(context({ KEY: "v", HIDDEN: "no", SECRET: "no" }), ["a.yaml"]);
  expect(file?.vars).toEqual({ KEY: "v" });
  expect(file?.folder).toBe(cwd);
});

test("standard input is a manifest of the folder where beige runs", async () => {
  const [file] = await collect(context({ A: "1" }, "x: ${A}\n"), ["-"]);
  expect(file).toMatchObject({ name: "<stdin>", text: "x: ${A}\n", vars: { A: "1" } });
});

test("a manifest that is not UTF-8, or longer than 4 MiB, is refused", async () => {
  writeFileSync(join(cwd, "bad.yaml"), Buffer.from([0x61, 0x3a, 0xff, 0xfe]));
  await expect(names(["bad.yaml"])).rejects.toThrow(/not UTF-8/);
  put("big.yaml", "x".repeat(4 * 1024 * 1024 + 1));
  await expect(names(["big.yaml"])).rejects.toThrow(/longer than/);
});

test("text files come from below the manifest's folder only, whatever the path looks like", async () => {
  put("stack/a.yaml");
  put("stack/text/travel.md", "You plan trips.");
  put("outside.md", "no");
  put("stack-evil/x.md", "no");
  symlinkSync(join(cwd, "outside.md"), join(cwd, "stack/link.md"));
  symlinkSync(cwd, join(cwd, "stack/up"));
  const files = await collect(context(), ["stack/a.yaml"]);
  const answer = (path: string) => answerFiles(files, [{ manifest: "stack/a.yaml", path }])[0]?.files;
  expect(answer("./text/travel.md")).toEqual({ "./text/travel.md": "You plan trips." });
  for (const path of ["../outside.md", "link.md", "up/outside.md", "/etc/hostname", "../stack-evil/x.md", "text/../../outside.md"]) {
    expect(() => answer(path), path).toThrow(/outside the manifest's folder/);
  }
  for (const path of ["none.md", "text", "bad\0name", ""]) expect(() => answer(path), path).toThrow();
  put("stack/big.md", "x".repeat(256 * 1024 + 1));
  expect(() => answer("big.md")).toThrow(/longer than 256 KiB/);
});

test("files asked for another manifest are not read", async () => {
  put("a.yaml");
  const files = await collect(context(), ["a.yaml"]);
  expect(answerFiles(files, [{ manifest: "other.yaml", path: "/etc/passwd" }])).toEqual(files);
});
