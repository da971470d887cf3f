import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import { begin, delta, refuses, roadTo, says, serve, type Answer } from "../../test/road/provider.ts";
import { createPi } from "../adapters/pi.ts";
import { createAudit } from "../adapters/audit.ts";
import type { AuditRow } from "../core/audit.ts";
import { verifyChain } from "../core/chain.ts";
import type { ChatEvent, Llm } from "../core/chat.ts";
import type { RoadRequest } from "../core/road.ts";
import { openStore } from "../engine/store.ts";
import { createLedger } from "./ledger.ts";

const CALLS = 10_000;
const AT_ONCE = 150;

const FATES: Record<string, Answer> = {
  good: says("hel", "lo"),
  bad: refuses(400),
  gone: refuses(404),
  down: refuses(503),
  reset: (response) => void response.destroy(),
  cut: (response) => {
    begin(response).write(delta("half"));
    setImmediate(() => response.destroy());
  },
  // The caller gives up on these three.
  silent: () => undefined,
  headers: (response) => begin(response).flushHeaders(),
  drip: (response) => void begin(response).write(delta("some")),
  thrown: says("never"),
};
const names = Object.keys(FATES);
const patient = new Set(["good", "bad", "gone", "down", "reset", "cut", "thrown"]);
const fds = (): number => readdirSync("/proc/self/fd").length;

test("10,000 mixed calls over real sockets end with no slot held, nobody waiting, a ledger that adds up, a chain that verifies, and no descriptor more (P89)", async () => {
  const home = mkdtempSync(join(tmpdir(), "beige-mixed-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  await using server = await serve((response, asked) => {
    const fate = /fate-(\w+)/.exec(JSON.stringify(asked.body))?.[1] ?? "";
    FATES[fate]?.(response, asked);
  });
  const log = w.memoryLog();
  const store = openStore({ home, clock: w.clock, random: w.random, log });
  const path = join(home, "audit.jsonl");
  const audit = createAudit({ path, clock: w.clock, closeOpen: true });
  const ledger = createLedger({ book: store.ledger, clock: w.clock, budgetOf: () => undefined, scopes: () => [], tell: () => undefined });
  const pi = createPi({ log });
  const llm: Llm = {
    stream: (target, context, options, signal) => {
      if (JSON.stringify(context).includes("fate-thrown")) throw new Error("thrown");
      return pi.llm.stream(target, context, options, signal);
    },
  };
  const clock = { ...w.clock, sleep: (ms: number, signal?: AbortSignal) => w.clock.sleep(Math.min(ms, 5), signal) };
  const road = roadTo([server], { audit, ledger, clock, llm: () => llm });
  const request = (n: number, fate: string): RoadRequest => {
    const content = `fate-${fate}`;
    const context = { messages: [{ role: "user" as const, content, timestamp: 1 }] };
    // One in eight goes by the SDK, and one of those that cannot be streamed is asked whole.
    const { wire: _wire, ...bare } = road.bare({
      context,
      session: `test:${n % 50}`,
      ...(n % 3 === 0 ? { agent: w.idOf(road.agent) } : {}),
    });
    if (n % 8 === 0 || fate === "thrown") return bare;
    return { ...bare, wire: { api: "openai-completions", body: { messages: [{ role: "user", content }] }, stream: n % 4 !== 1 } };
  };
  const lasts = new Map<string, number>();
  const one = async (n: number): Promise<void> => {
    const fate = names[n % names.length] ?? "";
    const gone = new AbortController();
    const timer = patient.has(fate) && n % 23 !== 0 ? undefined : setTimeout(() => gone.abort(), n % 40);
    let last: ChatEvent["type"] | "wire" | "left" = "left";
    for await (const event of road.chat(request(n, fate), gone.signal)) {
      last = event.type;
      // Some readers only walk away.
      if (n % 17 === 0 && event.type !== "start") break;
    }
    clearTimeout(timer);
    lasts.set(`${fate} ${last}`, (lasts.get(`${fate} ${last}`) ?? 0) + 1);
  };
  const many = async (from: number, to: number): Promise<void> => {
    let next = from;
    const worker = async (): Promise<void> => {
      while (next < to) await one(next++);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  };

  await many(0, 500);
  await w.clock.sleep(100);
  const before = fds();
  await many(500, CALLS);
  expect(road.limiter.seen("a")).toMatchObject({ used: 0, waiting: 0 });
  await w.clock.sleep(100);
  expect(fds()).toBeLessThanOrEqual(before + 20);

  await audit.close();
  const rows = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as AuditRow);
  expect(await verifyChain([readFileSync(path)])).toMatchObject({ ok: true, open: 0, rows: rows.length });
  const [begun, ended] = ["begin", "end"].map((phase) => rows.filter((row) => row.phase === phase));
  expect(new Set(ended?.map((row) => row.call))).toEqual(new Set(begun?.map((row) => row.call)));
  expect(ended?.length).toBe(begun?.length);
  expect(begun?.length).toBeGreaterThan(CALLS);
  for (const outcome of ["ok", "failed", "cancelled"]) expect(ended?.filter((row) => row.outcome === outcome).length).toBeGreaterThan(500);

  const sum = (field: string): number => (ended ?? []).reduce((total, row) => total + (row.usage?.[field] ?? 0), 0);
  const report = await ledger.usage({ by: "provider", since: 0, until: w.clock.now() + 1000, limit: 10 });
  expect(report.total).toMatchObject({ requests: begun?.length, open: 0, input: sum("input"), output: sum("output") });
  expect(report.total.usd).toBeCloseTo(sum("costUsd"), 4);
  expect(log.lines.filter((line) => line.level === "error")).toEqual([]);

  // What is said of a call does not depend on what happened to its neighbours.
  const seen = (fate: string): string[] =>
    [...lasts.keys()].filter((key) => key.startsWith(`${fate} `)).map((key) => key.slice(fate.length + 1));
  expect(seen("good").toSorted()).toEqual(["done", "error", "text_start", "wire"]);
  for (const fate of ["bad", "gone", "down", "silent"]) expect(seen(fate)).toEqual(["error"]);
  store.close();
}, 90_000);
