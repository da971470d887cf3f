import { afterEach, expect, test } from "vitest";
import type { AuditRow } from "../../core/audit.ts";
import { rig, type Rig } from "../rig.ts";
import { lineOf } from "./logs.ts";

let at: Rig;
afterEach(() => at.end());

const LOG = "GET /api/v1/namespaces/default/pods/travel/log";
const row = (seq: number, over: Partial<AuditRow> = {}): AuditRow => ({
  seq,
  ts: `2026-03-05T00:00:0${seq}.000Z`,
  call: `c${seq}`,
  phase: "end",
  agent: "travel",
  type: "core_tool",
  tool: "exec",
  args: [`echo ${seq}`],
  decision: "allowed",
  exitCode: 0,
  durationMs: 5,
  prev_hash: "",
  hash: "",
  ...over,
});

async function open(rows: AuditRow[]): Promise<void> {
  at = await rig({ audit: { tail: async (n, filter) => rows.filter((each) => each.agent === filter.agent).slice(-n) } });
  at.control.put("Agent", "travel");
}

test("a log is one line a call, the last ones or those since a time", async () => {
  await open([
    row(1),
    row(2, { phase: "begin" }),
    row(2),
    row(3, { agent: "other" }),
    row(4, { phase: "denied", decision: "denied", error: "no" }),
  ]);
  const all = await at.ask(LOG);
  expect([all.headers["content-type"], all.text.trim().split("\n")]).toEqual([
    expect.stringContaining("text/plain"),
    [
      '2026-03-05T00:00:01.000Z core_tool exec allowed exit=0 5ms ["echo 1"]',
      '2026-03-05T00:00:02.000Z core_tool exec allowed exit=0 5ms ["echo 2"]',
      '2026-03-05T00:00:04.000Z core_tool exec denied exit=0 5ms ["echo 4"] "no"',
    ],
  ]);
  expect((await at.ask(`${LOG}?tailLines=1`)).text).toContain("echo 4");
  expect((await at.ask(`${LOG}?tailLines=0`)).text).toBe("");
  expect((await at.ask(`${LOG}?sinceTime=2026-03-05T00:00:02Z`)).text.split("\n")).toHaveLength(3);
  for (const [query, status] of [
    ["previous=true", 400],
    ["container=web", 400],
    ["container=sandbox", 200],
    ["sinceTime=soon", 400],
  ] as const)
    expect([query, (await at.ask(`${LOG}?${query}`)).status]).toEqual([query, status]);
  expect((await at.ask(LOG.replace("travel", "nobody"))).status).toBe(404);
});

test("a log that is followed tells each later call once", async () => {
  const rows = [row(1)];
  await open(rows);
  const following = at.ask(`${LOG}?follow=true&tailLines=0`);
  await new Promise((done) => setTimeout(done, 200));
  rows.push(row(2), row(3, { phase: "begin" }));
  await new Promise((done) => setTimeout(done, 1_200));
  rows.push(row(4));
  await new Promise((done) => setTimeout(done, 1_200));
  await at.api.close();
  expect(
    (await following).text
      .trim()
      .split("\n")
      .map((line) => line.slice(-10)),
  ).toEqual(['["echo 2"]', '["echo 4"]']);
});

test("what an agent chose cannot move a terminal's cursor", async () => {
  await open([]);
  const line = lineOf(row(1, { args: ["\u001b[2J\u009b1A\n\u202e\u2028x"], tool: "e\u001bc" }));
  expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}\p{Zl}]/u);
});
