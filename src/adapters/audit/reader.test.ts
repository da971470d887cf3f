import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createAuditReader } from "./reader.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-tail-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const row = (seq: number, agent: string, filler = ""): string => `${JSON.stringify({ seq, agent, tool: "exec", filler })}\n`;

test("the last rows that match come oldest first; a row that is still being written is not one", async () => {
  const path = join(folder, "audit.jsonl");
  writeFileSync(path, `${row(1, "a")}${row(2, "b")}not json\n${row(3, "a")}${row(4, "a")}{"seq":5,"agent":"a"`);
  const { tail } = createAuditReader(path);
  expect((await tail(2, { agent: "a" })).map((each) => each.seq)).toEqual([3, 4]);
  expect((await tail(10, { tool: "exec", agent: "b" })).map((each) => each.seq)).toEqual([2]);
  expect(await tail(10, { agent: "nobody" })).toEqual([]);
});

test("no file is no rows, and a huge one is read from its end only", async () => {
  expect(await createAuditReader(join(folder, "none")).tail(5, {})).toEqual([]);
  const path = join(folder, "huge.jsonl");
  writeFileSync(path, Array.from({ length: 9 }, (_, i) => row(i, "a", "x".repeat(1_000_000))).join(""));
  const seen = await createAuditReader(path).tail(100, {});
  expect(seen.map((each) => each.seq)).toEqual([5, 6, 7, 8]);
});
