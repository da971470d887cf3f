import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ToolAnswer, ToolDefinition } from "../../src/core/plugin.ts";
import { createPlugin } from "./index.ts";

let folder = "";
let tool: ToolDefinition | undefined;

async function make(): Promise<void> {
  const plugin = await createPlugin({
    name: "memory",
    config: {},
    secret: () => Promise.reject(new Error("none")),
    dataFolder: folder,
    log: () => undefined,
  });
  await plugin.register({ tool: (definition) => (tool = definition), hooks: () => undefined });
}
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "beige-memory-"));
  await make();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function memory(
  args: readonly string[],
  more: { agent?: string; stdin?: Uint8Array; config?: object } = {},
): Promise<ToolAnswer & { exitCode: number }> {
  if (tool === undefined) throw new Error("no tool");
  const caller = { agent: more.agent ?? "travel", attribution: "none", callId: "c" } as const;
  const input = { args, ...(more.stdin === undefined ? {} : { stdin: more.stdin }) };
  const answer = await tool.run(input, {
    caller,
    config: (more.config ?? {}) as Record<string, unknown>,
    signal: new AbortController().signal,
  });
  return { ...answer, exitCode: answer.exitCode ?? (answer.error === undefined ? 0 : 1) };
}

test("what is saved is there again, after a restart too", async () => {
  expect(await memory(["save", "greeting", "hello", "world"])).toEqual({ output: "saved greeting (11 bytes)\n", exitCode: 0 });
  await make();
  expect(await memory(["get", "greeting"])).toEqual({ output: "hello world\n", exitCode: 0 });
  expect((await memory(["list"])).output).toMatch(/^greeting\t11\t\d{4}-\d\d-\d\dT/);
});

test("a text of several lines comes from standard input, as it is", async () => {
  await memory(["save", "notes", "-"], { stdin: Buffer.from("first line\nsecond Ünïcode\n") });
  expect((await memory(["get", "notes"])).output).toBe("first line\nsecond Ünïcode\n");
  expect(await memory(["save", "notes", "-"])).toMatchObject({ exitCode: 2, error: expect.stringContaining("standard input") });
});

test("saving again replaces, forgetting removes", async () => {
  await memory(["save", "k", "old"]);
  await memory(["save", "k", "new"]);
  expect((await memory(["get", "k"])).output).toBe("new\n");
  expect(await memory(["forget", "k"])).toMatchObject({ exitCode: 0 });
  expect(await memory(["forget", "k"])).toMatchObject({ exitCode: 1 });
  expect(await memory(["get", "k"])).toEqual({ output: "", exitCode: 1, error: "memory: there is no k" });
});

test("a search wants all words, in any case, and shows the lines", async () => {
  await memory(["save", "trip", "-"], { stdin: Buffer.from("Flight to Vienna\nhotel near the station\n") });
  await memory(["save", "user.name", "Ada"]);
  expect((await memory(["search", "VIENNA", "hotel"])).output).toBe("trip: Flight to Vienna\ntrip: hotel near the station\n");
  expect((await memory(["search", "user"])).output).toBe("user.name: Ada\n");
  expect(await memory(["search", "vienna", "ada"])).toMatchObject({ exitCode: 1 });
});

test("no agent sees or changes another one's texts", async () => {
  await memory(["save", "k", "mine"]);
  expect(await memory(["get", "k"], { agent: "other" })).toMatchObject({ exitCode: 1 });
  await memory(["save", "k", "theirs"], { agent: "team.travel" });
  expect((await memory(["get", "k"])).output).toBe("mine\n");
  for (const agent of ["../travel", "a/b", "", "..", "A"]) await expect(memory(["list"], { agent }), agent).rejects.toThrow("usable name");
});

test("wrong usage is exit code 2 and says what to do", async () => {
  for (const args of [
    [],
    ["nope"],
    ["save"],
    ["save", "k"],
    ["save", "../x", "t"],
    ["save", "a b", "t"],
    ["get"],
    ["get", "a", "b"],
    ["list", "x"],
    ["search"],
    ["forget"],
    ["save", "k", "a\0b"],
  ]) {
    expect(await memory(args), args.join(" ")).toMatchObject({ exitCode: 2, error: expect.stringMatching(/^memory: .*memory help$/) });
  }
  for (const args of [["help"], ["--help"], ["-h"]])
    expect(await memory(args)).toMatchObject({ exitCode: 0, output: expect.stringContaining("exit codes") });
});

test("sizes are bounded: a text, the number of keys, and all together", async () => {
  expect(await memory(["save", "big", "x".repeat(16_385)])).toMatchObject({ exitCode: 2 });
  for (let at = 0; at < 3; at += 1) await memory(["save", `k${at}`, "x"], { config: { entries: 3 } });
  expect(await memory(["save", "k3", "x"], { config: { entries: 3 } })).toMatchObject({
    exitCode: 2,
    error: expect.stringContaining("forget one first"),
  });
  expect(await memory(["save", "k1", "y"], { config: { entries: 3 } })).toMatchObject({ exitCode: 0 });
  let refused = 0;
  for (let at = 0; at < 70; at += 1)
    refused += (await memory(["save", `b${at}`, "z".repeat(16_384)], { agent: "full" })).exitCode === 2 ? 1 : 0;
  expect(refused).toBe(6);
});

test("saves at once lose none, and the file is private", async () => {
  await Promise.all(Array.from({ length: 40 }, (_, at) => memory(["save", `k${at}`, `t${at}`])));
  expect(((await memory(["list"])).output as string).trimEnd().split("\n")).toHaveLength(40);
  expect(statSync(join(folder, "travel.json")).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["travel.json"]);
});

test("a damaged file is not written over", async () => {
  writeFileSync(join(folder, "travel.json"), '{"half":');
  await expect(memory(["save", "k", "t"])).rejects.toThrow();
  expect(readFileSync(join(folder, "travel.json"), "utf8")).toBe('{"half":');
});

test("what plugin.json names is there", () => {
  const here = new URL(".", import.meta.url).pathname;
  const manifest = JSON.parse(readFileSync(join(here, "plugin.json"), "utf8")) as { files: string[]; provides: { tools: string[] } };
  for (const name of manifest.files) expect(existsSync(join(here, name)), name).toBe(true);
  expect(manifest.provides.tools).toEqual([tool?.name]);
  chmodSync(folder, 0o700);
});
