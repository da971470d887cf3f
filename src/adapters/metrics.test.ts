import { spawnSync } from "node:child_process";
import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import type { Audit, AuditCall } from "../core/audit.ts";
import type { Levels } from "../core/metrics.ts";
import { createMetrics } from "./metrics.ts";
import { metered } from "./metrics/audit.ts";

const levels: Levels = { slots: [{ provider: "p", used: 2, waiting: 1, limit: 4 }], sessions: { open: 3, busy: 1 } };
const promtool = ["promtool", "node_modules/.cache/promtool/promtool"].find((path) => spawnSync(path, ["--version"]).status === 0);

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$/;

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A strict reader of the exposition format; throws at the first thing that is not as it should be. */
function read(text: string): { readonly samples: readonly Sample[]; readonly types: ReadonlyMap<string, string> } {
  const types = new Map<string, string>();
  const helped = new Set<string>();
  const samples: Sample[] = [];
  const seen = new Set<string>();
  if (!text.endsWith("\n")) throw new Error("no line feed at the end");
  for (const line of text.slice(0, -1).split("\n")) {
    const [, word, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (word !== undefined) {
      if (!NAME.test(name)) throw new Error(`name ${name}`);
      if (word === "HELP") helped.add(name);
      else if (types.has(name) || !/^(counter|gauge|histogram|summary)$/.test(rest)) throw new Error(`type ${line}`);
      else types.set(name, rest);
    } else if (line !== "" && !line.startsWith("#")) {
      const [, sample = "", labelText = "", value = ""] = SAMPLE.exec(line) ?? [];
      if (sample === "" || (!Number.isFinite(Number(value)) && !/^([+-]?inf|nan)$/i.test(value))) throw new Error(`sample ${line}`);
      const labels = Object.fromEntries([...labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((match) => [match[1], match[2]]));
      const family = [sample, sample.replace(/_(bucket|sum|count)$/, "")].find((each) => types.has(each));
      if (family === undefined || !helped.has(family)) throw new Error(`no type or help of ${sample}`);
      if (types.get(family) === "counter" && !sample.endsWith("_total")) throw new Error(`counter ${sample}`);
      if (types.get(family) !== "counter" && family.endsWith("_total")) throw new Error(`total ${sample}`);
      const key = line.slice(0, line.lastIndexOf(" "));
      if (seen.has(key)) throw new Error(`twice ${key}`);
      seen.add(key);
      samples.push({ name: sample, labels, value: Number(value) });
    }
  }
  return { samples, types };
}

function check(text: string): ReturnType<typeof read> {
  if (promtool !== undefined) {
    const run = spawnSync(promtool, ["check", "metrics"], { input: text, encoding: "utf8" });
    expect([run.stdout, run.stderr, run.status]).toEqual(["", "", 0]);
  }
  return read(text);
}

const chain: Audit = {
  begin: async () => undefined,
  end: async () => undefined,
  denied: async () => undefined,
  note: async () => undefined,
};
const llm = (tool: string): AuditCall => ({ agent: "a", type: "llm", tool, args: [], decision: "allowed", target: "provider" });
const value = (read_: ReturnType<typeof read>, name: string, labels: Readonly<Record<string, string>> = {}): number | undefined =>
  read_.samples.find((each) => each.name === name && Object.entries(labels).every(([key, own]) => each.labels[key] === own))?.value;

test(`what passes through the audit is counted, in a format that ${promtool === undefined ? "a strict reader" : "promtool"} accepts`, async () => {
  const metrics = createMetrics({ levels: () => levels });
  const audit = metered(chain, "audit", metrics);
  const usage = { input: 10, output: 5, cacheRead: 2, cacheWrite: 0, costUsd: 0.25, waitMs: 40, firstMs: 300 };
  await audit.begin("1", llm("p/deep/model"));
  await audit.end("1", llm("p/deep/model"), { durationMs: 2_000, exitCode: 0, outputBytes: 3, outcome: "ok", usage });
  await audit.end("2", llm("p/deep/model"), { durationMs: 10, exitCode: 1, outputBytes: 0, outcome: "failed" });
  const tool: AuditCall = { agent: "a", type: "tool", tool: "weather", args: [], decision: "allowed" };
  await audit.end("3", tool, { durationMs: 5, exitCode: 0, outputBytes: 1, outcome: "ok" });
  await audit.denied("4", { ...tool, decision: "denied" }, "no");
  await audit.denied("5", { ...tool, tool: "made-up-by-a-caller", decision: "denied" }, "no");
  await audit.end("6", { ...tool, type: "turn", tool: "prompt" }, { durationMs: 900, exitCode: 0, outputBytes: 1, outcome: "ok" });
  metrics.count("reconciles", { kind: "Agent", outcome: "settled" });
  const { type, body } = await metrics.text();
  expect(type).toContain("text/plain; version=0.0.4");
  const seen = check(body);
  expect(value(seen, "beige_llm_requests_total", { provider: "p", model: "deep/model", outcome: "ok" })).toBe(1);
  expect(value(seen, "beige_llm_requests_total", { outcome: "failed" })).toBe(1);
  expect(value(seen, "beige_llm_tokens_total", { kind: "cache_read" })).toBe(2);
  expect(value(seen, "beige_llm_tokens_total", { kind: "cache_write" })).toBeUndefined();
  expect(value(seen, "beige_llm_cost_usd_total")).toBe(0.25);
  expect(value(seen, "beige_llm_request_duration_seconds_bucket", { le: "2.5" })).toBe(2);
  expect(value(seen, "beige_llm_time_to_first_token_seconds_sum")).toBeCloseTo(0.3);
  expect(value(seen, "beige_llm_slot_wait_seconds_count")).toBe(1);
  expect(value(seen, "beige_tool_calls_total", { tool: "weather", outcome: "denied" })).toBe(1);
  expect(value(seen, "beige_tool_calls_total", { tool: "other", outcome: "denied" })).toBe(1);
  expect(value(seen, "beige_turns_total", { outcome: "ok" })).toBe(1);
  expect(value(seen, "beige_reconciles_total", { kind: "Agent" })).toBe(1);
  expect(value(seen, "beige_audit_rows_total", { chain: "audit", phase: "denied" })).toBe(2);
  expect(value(seen, "beige_provider_slots_waiting", { provider: "p" })).toBe(1);
  expect(value(seen, "beige_sessions_open")).toBe(3);
  expect(value(seen, "process_resident_memory_bytes")).toBeGreaterThan(1e6);
  expect(body).not.toContain("made-up-by-a-caller");
});

test("names that keep coming do not make series without end, and hostile ones do not break the format", async () => {
  const metrics = createMetrics({ levels: () => levels });
  for (let i = 0; i < 5_000; i++) metrics.count("llmRequests", { provider: "p", model: `m"\\\n${i}`, outcome: "ok" });
  const seen = check((await metrics.text()).body);
  const own = seen.samples.filter((each) => each.name === "beige_llm_requests_total");
  expect(own.length).toBe(501);
  expect(own.reduce((sum, each) => sum + each.value, 0)).toBe(5_000);
  expect(value(seen, "beige_llm_requests_total", { model: "other" })).toBe(4_500);
});

test("a provider that is gone leaves no level behind, and odd numbers are not counted", async () => {
  let slots = levels.slots;
  const metrics = createMetrics({ levels: () => ({ ...levels, slots }) });
  metrics.count("llmUsd", { provider: "p", model: "m" }, Number.NaN);
  metrics.count("llmUsd", { provider: "p", model: "m" }, -1);
  metrics.time("llmDuration", { provider: "p", model: "m" }, Number.POSITIVE_INFINITY);
  expect((await metrics.text()).body).toContain('beige_provider_slots_used{provider="p"} 2');
  slots = [];
  const seen = check((await metrics.text()).body);
  expect(value(seen, "beige_provider_slots_used")).toBeUndefined();
  expect(value(seen, "beige_llm_cost_usd_total")).toBeUndefined();
});

test("counting one request costs a few microseconds", async () => {
  const metrics = createMetrics({ levels: () => levels });
  await metrics.text();
  const audit = metered(chain, "audit", metrics);
  const usage = { input: 10, output: 5, cacheRead: 2, cacheWrite: 1, costUsd: 0.25, waitMs: 40 };
  const outcome = { durationMs: 2_000, exitCode: 0, outputBytes: 3, outcome: "ok", usage } as const;
  for (let i = 0; i < 2_000; i++) await audit.end("1", llm("p/m"), outcome);
  const since = performance.now();
  for (let i = 0; i < 5_000; i++) await audit.end("1", llm("p/m"), outcome);
  expect((performance.now() - since) / 5_000).toBeLessThan(0.1);
});
