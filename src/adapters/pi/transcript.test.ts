import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { branchOf, createSessionFiles } from "./transcript.ts";

const folder = mkdtempSync(join(tmpdir(), "beige-transcript-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const files = createSessionFiles();
const at = "2026-11-01T00:00:00.000Z";
const user = (id: string, parentId: string | null, text: string): Record<string, unknown> => ({
  type: "message",
  id,
  parentId,
  timestamp: at,
  message: { role: "user", content: [{ type: "text", text }], timestamp: 1 },
});
const draft = (id: string) => ({ folder, id, cwd: "/workspace" });

test("entries from outside make a file that only the gateway reads, and are read back along the branch in force", async () => {
  const { file, last } = await files.append(draft("a"), [user("1", null, "one"), user("2", "1", "left out"), user("3", "1", "two")]);
  expect([last, statSync(file).mode & 0o777]).toEqual(["3", 0o600]);
  expect((await files.branch(file)).map((entry) => entry.id)).toEqual(["1", "3"]);
  expect(JSON.parse(readFileSync(file, "utf8").split("\n")[0] ?? "")).toMatchObject({ type: "session", id: "a", cwd: "/workspace" });
});

test.each([
  ["no entries", []],
  ["an entry that is no object", [1]],
  ["an unknown type", [{ ...user("9", "3", "x"), type: "evil" }]],
  ["a type that every object has", [{ ...user("9", "3", "x"), type: "constructor" }]],
  ["an id that is there", [user("3", "1", "x")]],
  ["an id with a slash", [user("../x", "3", "x")]],
  ["a parent that is not there", [user("9", "nope", "x")]],
  ["a second beginning", [user("9", null, "x")]],
  ["no time", [{ ...user("9", "3", "x"), timestamp: "soon" }]],
  ["a message without a role", [{ ...user("9", "3", "x"), message: { content: "x" } }]],
  [
    "an answer without usage",
    [{ ...user("9", "3", "x"), message: { role: "assistant", content: [], provider: "p", model: "m", stopReason: "stop" } }],
  ],
  ["the gateway's own entry", [{ type: "custom", id: "9", parentId: "3", timestamp: at, customType: "beige.inbox", data: { id: "1" } }]],
])("%s is refused and changes nothing", async (_, entries) => {
  const before = readFileSync(join(folder, "a.jsonl"), "utf8");
  await expect(files.append({ ...draft("a"), file: join(folder, "a.jsonl") }, entries)).rejects.toMatchObject({ code: "invalid" });
  expect(readFileSync(join(folder, "a.jsonl"), "utf8")).toBe(before);
});

test("who does not know the newest entry is told so", async () => {
  const known = { ...draft("a"), file: join(folder, "a.jsonl") };
  await expect(files.append(known, [user("4", "3", "x")], "1")).rejects.toMatchObject({ code: "conflict" });
  expect((await files.append(known, [user("4", "3", "x")], "3")).last).toBe("4");
});

test("a text is found in any case, also with quotes, within bounds", async () => {
  const { file } = await files.append(draft("b"), [
    user("1", null, 'He said "Graz"'),
    user("2", "1", "graz again"),
    user("3", "2", "x".repeat(600_000)),
  ]);
  const found = await files.find(file, 'SAID "GRAZ', { limit: 10, maxBytes: 1e9 });
  expect([found.entries.map((entry) => entry.id), found.whole]).toEqual([["1"], true]);
  expect((await files.find(file, "graz", { limit: 1, maxBytes: 1e9 })).entries).toHaveLength(1);
  expect((await files.find(file, "nothing", { limit: 1, maxBytes: 1000 })).whole).toBe(false);
  expect(await files.find(join(folder, "missing"), "x", { limit: 1, maxBytes: 1 })).toMatchObject({ entries: [], whole: true });
});

test("entries that hang on each other in a circle end", () => {
  const circle = [
    { type: "message", id: "1", parentId: "2", timestamp: at },
    { type: "message", id: "2", parentId: "1", timestamp: at },
  ];
  expect(branchOf(circle).map((entry) => entry.id)).toEqual(["1", "2"]);
});

test("lines that are no entries are passed over", async () => {
  const file = join(folder, "c.jsonl");
  writeFileSync(file, `{"type":"session","id":"c"}\nnoise\n[1]\n${JSON.stringify(user("1", null, "x"))}\n{"type":"mess`);
  expect((await files.branch(file)).map((entry) => entry.id)).toEqual(["1"]);
  expect(await files.branch(join(folder, "missing.jsonl"))).toEqual([]);
});
