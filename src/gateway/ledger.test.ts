import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { DAY_MS, daysOf, nanoOf, PERIODS } from "../core/budget.ts";
import { BeigeError } from "../core/errors.ts";
import type { LedgerBook, Period, Scope } from "../core/ledger.ts";
import type { Spend } from "../core/road.ts";
import { NO_USAGE } from "../core/usage.ts";
import type { Usage } from "../core/chat.ts";
import type { Log } from "../core/world.ts";
import type { Budget } from "../../schemas/types.ts";
import { connect, type Connection } from "../engine/store/connection.ts";
import { createLedgerBook, KEPT_DAYS } from "../engine/store/ledger.ts";
import { createLedger, type BudgetNotice } from "./ledger.ts";

/** Until what was asked for in this turn of the event loop is written. */
const turn = (): Promise<void> => new Promise((done) => setTimeout(done, 80));

const homes: string[] = [];
afterEach(() => {
  for (const home of homes.splice(0)) rmSync(home, { recursive: true, force: true });
});
const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

interface Rig {
  readonly ledger: ReturnType<typeof createLedger>;
  readonly book: LedgerBook;
  readonly db: Connection["quick"];
  readonly notices: BudgetNotice[];
  readonly home: string;
  readonly time: { now: number };
  /** The process dies after what it wrote; a new one opens the same file. */
  restart(): Rig;
  /** The process is killed at this moment. */
  killed(): Rig;
  close(): void;
}

function rig(budgets: Readonly<Record<string, Budget>>, home = mkdtempSync(join(tmpdir(), "beige-ledger-")), time = { now: 0 }): Rig {
  homes.push(home);
  if (time.now === 0) time.now = Date.parse("2026-11-30T22:00:00Z");
  const connection = connect(home, () => "s");
  const clock = { now: () => time.now, after: (ms: number, run: () => void) => void setTimeout(run, ms).unref() } as never;
  const book = createLedgerBook(connection, clock, quiet);
  const notices: BudgetNotice[] = [];
  const ledger = createLedger({
    book,
    clock,
    budgetOf: ({ kind, name }) => budgets[`${kind}/${name}`],
    scopes: () => Object.keys(budgets).map((key) => ({ kind: key.split("/")[0] as Scope["kind"], name: key.slice(key.indexOf("/") + 1) })),
    tell: (notice) => notices.push(notice),
  });
  return {
    ledger,
    book,
    db: connection.quick,
    notices,
    home,
    time,
    restart() {
      book.end();
      connection.close();
      return rig(budgets, home, time);
    },
    killed() {
      connection.close();
      return rig(budgets, home, time);
    },
    close() {
      book.end();
      connection.close();
    },
  };
}

let calls = 0;
const spend = (part: Partial<Spend> = {}): Spend => ({
  call: `c${++calls}`,
  agent: { namespace: "default", name: "a", uid: "u" },
  provider: "p",
  model: "m",
  tokens: 100,
  usd: 0.15,
  ...part,
});
const used = (tokens: number, usd: number): Usage => ({
  ...NO_USAGE,
  input: tokens,
  totalTokens: tokens,
  cost: { ...NO_USAGE.cost, total: usd },
});
const usd = (daily: number): Budget => ({ daily: { usd: daily }, unknownPrice: "refuse" });
const refusal = (run: () => void): BeigeError | undefined => {
  try {
    run();
  } catch (error) {
    return error as BeigeError;
  }
  return undefined;
};

test("of five parallel requests at $0.15 a budget of $0.45 admits three, and no cent twice (P97)", () => {
  const at = rig({ "agent/a": usd(0.45) });
  const outcomes = [1, 2, 3, 4, 5].map(() => refusal(() => at.ledger.reserve(spend()))?.code);
  expect(outcomes).toEqual([undefined, undefined, undefined, "exhausted", "exhausted"]);
  at.close();
});

test("what a request did not use comes back, and what it used more is counted", () => {
  const at = rig({ "agent/a": usd(0.45) });
  const first = spend({ usd: 0.4 });
  at.ledger.reserve(first);
  expect(refusal(() => at.ledger.reserve(spend()))).toMatchObject({ code: "exhausted", retryAfterMs: 1000 });
  at.ledger.settle(first.call, used(10, 0.1), "answered");
  at.ledger.settle(first.call, used(10, 0.1), "answered");
  expect(at.ledger.budgets()).toMatchObject([{ spent: 0.1, reserved: 0, limit: 0.45 }]);
  const second = spend({ usd: 0.3 });
  at.ledger.reserve(second);
  at.ledger.settle(second.call, used(10, 0.5), "answered");
  const no = refusal(() => at.ledger.reserve(spend()));
  expect(no?.message).toContain("the daily budget of agent 'a' is used up: $0.60 of $0.45 spent");
  expect(no?.retryAfterMs).toBe(2 * 3_600_000);
  at.time.now += 2 * 3_600_000;
  expect(refusal(() => at.ledger.reserve(spend()))).toBeUndefined();
  at.close();
});

test("agent, key and provider are each held to their own budget, and a refused request is counted nowhere", async () => {
  const at = rig({
    "agent/a": { daily: { requests: 10 }, unknownPrice: "refuse" },
    "key/k": { daily: { tokens: 250 }, unknownPrice: "refuse" },
    "provider/p": { monthly: { requests: 3 }, unknownPrice: "refuse" },
  });
  at.ledger.reserve(spend({ key: "k" }));
  at.ledger.reserve(spend({ key: "k" }));
  expect(refusal(() => at.ledger.reserve(spend({ key: "k" })))?.message).toContain("the daily budget of API key 'k'");
  at.ledger.reserve(spend());
  expect(refusal(() => at.ledger.reserve(spend()))?.message).toContain("the monthly budget of provider 'p'");
  expect(at.ledger.budgets({ kind: "agent", name: "a" })).toMatchObject([{ reserved: 3 }]);
  await turn();
  expect(at.db.prepare("SELECT count(*) AS n FROM ledger").get()).toEqual({ n: 3 });
  at.close();
});

test("a model without a price is refused under a budget in dollars and names the line, unless it is allowed", () => {
  const at = rig({
    "agent/a": usd(1),
    "agent/b": { ...usd(1), unknownPrice: "allow" },
    "agent/c": { daily: { tokens: 5000 }, unknownPrice: "refuse" },
  });
  const of = (name: string): Spend => {
    const { usd: _price, ...rest } = spend({ agent: { namespace: "default", name, uid: name } });
    return rest;
  };
  expect(refusal(() => at.ledger.reserve(of("a")))).toMatchObject({
    code: "invalid",
    hint: expect.stringContaining("spec.models[].cost of 'm' in Provider p"),
  });
  expect(refusal(() => at.ledger.reserve(of("b")))).toBeUndefined();
  expect(refusal(() => at.ledger.reserve(of("c")))).toBeUndefined();
  at.close();
});

test("an answer that does not say what it used stands at its reserve; a failure or an abort without usage costs nothing", async () => {
  const at = rig({ "agent/a": usd(10) });
  for (const how of ["answered", "cancelled", "failed"] as const) {
    const one = spend({ usd: 1 });
    at.ledger.reserve(one);
    at.ledger.settle(one.call, NO_USAGE, how);
  }
  expect(at.ledger.budgets()).toMatchObject([{ spent: 1, reserved: 0 }]);
  await turn();
  expect(at.db.prepare("SELECT state, nano FROM ledger ORDER BY id").all()).toEqual([
    { state: "estimated", nano: 1e9 },
    { state: "cancelled", nano: 0 },
    { state: "failed", nano: 0 },
  ]);
  at.close();
});

test("after a crash open requests are charged at their reserve, and the budget goes on where it was", async () => {
  const first = rig({ "agent/a": usd(1) });
  const done = spend({ usd: 0.3 });
  first.ledger.reserve(done);
  first.ledger.settle(done.call, used(5, 0.2), "answered");
  first.ledger.reserve(spend({ usd: 0.5, session: "cli:default" }));
  const second = first.restart();
  expect(second.ledger.budgets()).toMatchObject([{ spent: 0.7, reserved: 0 }]);
  expect(refusal(() => second.ledger.reserve(spend({ usd: 0.31 })))?.code).toBe("exhausted");
  expect(refusal(() => second.ledger.reserve(spend({ usd: 0.3 })))).toBeUndefined();
  await turn();
  expect(second.db.prepare("SELECT state FROM ledger ORDER BY id").all()).toEqual([
    { state: "answered" },
    { state: "lost" },
    { state: "open" },
  ]);
  second.close();
});

test("who is killed in the moment before a row is in its table has it counted once, whatever else is in the file", () => {
  const first = rig({ "agent/a": usd(1) });
  first.ledger.reserve(spend({ usd: 0.2 }));
  const second = first.killed();
  expect(second.ledger.budgets()).toMatchObject([{ spent: 0.2, reserved: 0 }]);
  second.ledger.reserve(spend({ usd: 0.3 }));
  second.book.flush();
  second.ledger.reserve(spend({ usd: 0.1 }));
  const rows = readFileSync(join(second.home, "state.db-opened"), "utf8");
  // A row that the table has already, one that was cut, and what is none at all.
  writeFileSync(join(second.home, "state.db-opened"), `${rows}${rows}null\n{"id":"x"}\n${rows.slice(0, 20)}`);
  const third = second.killed();
  expect(third.ledger.budgets()).toMatchObject([{ spent: 0.6, reserved: 0 }]);
  expect(third.db.prepare("SELECT id, state FROM ledger ORDER BY id").all()).toEqual([1, 2, 3].map((id) => ({ id, state: "lost" })));
  third.close();
});

test("a start looks only at rows that may be open still", async () => {
  const at = rig({});
  const old = spend();
  at.ledger.reserve(old);
  for (let i = 0; i < 2_500; i++) {
    const one = spend();
    at.ledger.reserve(one);
    at.ledger.settle(one.call, used(1, 0.01), "answered");
  }
  at.book.flush();
  const mark = (): unknown => at.db.prepare("SELECT id FROM ledger_mark").get()?.["id"];
  expect(mark()).toBe(0);
  at.ledger.settle(old.call, used(1, 0.01), "answered");
  at.ledger.reserve(spend());
  at.book.flush();
  expect(mark()).toBe(2_502);
  const next = at.restart();
  expect(next.db.prepare("SELECT state, count(*) AS n FROM ledger GROUP BY state ORDER BY n").all()).toEqual([
    { state: "lost", n: 1 },
    { state: "answered", n: 2_501 },
  ]);
  next.close();
});

test("80 % and the whole of a limit are told once a period, and not again by a new process", () => {
  const at = rig({ "agent/a": usd(1) });
  const pay = (on: Rig, amount: number): void => {
    const one = spend({ usd: 0 });
    on.ledger.reserve(one);
    on.ledger.settle(one.call, used(1, amount), "answered");
  };
  pay(at, 0.79);
  expect(at.notices).toEqual([]);
  pay(at, 0.02);
  pay(at, 0.02);
  expect(at.notices.map(({ reason }) => reason)).toEqual(["BudgetLow"]);
  expect(at.notices[0]?.message).toContain("$0.81 of the daily budget of agent 'a', $1.00, is spent");
  const again = at.restart();
  pay(again, 0.02);
  expect(again.notices).toEqual([]);
  expect(refusal(() => again.ledger.reserve(spend({ usd: 0.9 })))?.code).toBe("exhausted");
  expect(refusal(() => again.ledger.reserve(spend({ usd: 0.9 })))?.code).toBe("exhausted");
  pay(again, 0.2);
  expect(again.notices.map(({ reason }) => reason)).toEqual(["BudgetUsedUp"]);
  again.time.now += DAY_MS;
  pay(again, 0.9);
  expect(again.notices.map(({ reason }) => reason)).toEqual(["BudgetUsedUp", "BudgetLow"]);
  again.close();
});

test("an end is written within a moment although nothing else opens", async () => {
  const at = rig({});
  const one = spend();
  at.ledger.reserve(one);
  await turn();
  at.ledger.settle(one.call, used(3, 0.1), "answered");
  const state = (): unknown => at.db.prepare("SELECT state FROM ledger").get()?.["state"];
  expect(state()).toBe("open");
  await expect.poll(state, { timeout: 2000 }).toBe("answered");
  at.close();
});

test("while the ledger cannot be written nothing more is spent, and what was kept is written afterwards", async () => {
  const at = rig({});
  at.db.exec("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'disk full'); END");
  at.ledger.reserve(spend());
  await turn();
  expect(refusal(() => at.ledger.reserve(spend()))).toMatchObject({ code: "unavailable" });
  at.db.exec("DROP TRIGGER full");
  at.ledger.reserve(spend());
  await turn();
  expect(at.db.prepare("SELECT count(*) AS n FROM ledger").get()).toEqual({ n: 2 });
  at.close();
});

test("usage sums by agent, model, provider, key and session within its time, dearest first, in steps", async () => {
  const at = rig({});
  const since = at.time.now;
  for (let i = 0; i < 5000; i++) {
    const one = spend({ key: `k${i % 3}`, session: `s${i % 2}`, model: i % 5 === 0 ? "big" : "small" });
    at.ledger.reserve(one);
    at.ledger.settle(one.call, used(10, i % 5 === 0 ? 0.5 : 0.01), "answered");
    at.time.now += 1;
  }
  at.ledger.reserve(spend({ usd: 0.25, tokens: 7 }));
  const until = at.time.now + 1;
  const by = await at.ledger.usage({ by: "model", since, until, limit: 10 });
  expect(by.items.map(({ name, requests, usd: cost }) => [name, requests, cost])).toEqual([
    ["p/big", 1000, 500],
    ["p/small", 4000, 40],
    ["p/m", 1, 0.25],
  ]);
  expect(by.total).toMatchObject({ requests: 5001, tokens: 50_007, usd: 540.25, open: 1 });
  const half = await at.ledger.usage({ by: "session", since, until: since + 2500, limit: 10 });
  expect(half.items.map(({ name, requests }) => [name, requests])).toEqual([
    ["a s0", 1250],
    ["a s1", 1250],
  ]);
  const keys = await at.ledger.usage({ by: "key", since, until, limit: 1 });
  expect(keys.items.map(({ name }) => name)).toEqual(["k0", "(others)"]);
  expect(keys.items.reduce((sum, { requests }) => sum + requests, 0)).toBe(5001);
  expect(await at.ledger.usage({ by: "agent", since: 0, until: since, limit: 10 })).toMatchObject({ items: [], total: { requests: 0 } });
  at.close();
});

test("rows older than thirteen months go, some at a time, and newer ones stay", async () => {
  const at = rig({});
  const one = (): void => {
    const each = spend();
    at.ledger.reserve(each);
    at.ledger.settle(each.call, used(1, 0.01), "answered");
  };
  for (let i = 0; i < 1200; i++) one();
  at.book.flush();
  at.time.now += (KEPT_DAYS + 2) * DAY_MS;
  const left = (): number => Number(at.db.prepare("SELECT count(*) AS n FROM ledger").get()?.["n"]);
  const seen: number[] = [];
  for (let i = 0; i < 4; i++) {
    one();
    await turn();
    seen.push(left());
  }
  expect(seen).toEqual([701, 202, 3, 4]);
  expect(at.db.prepare("SELECT count(*) AS n FROM spending").get()).toEqual({ n: 2 });
  at.close();
});

/** The simplest account that is right: every request with what it is charged. */
interface Entry {
  readonly scopes: readonly string[];
  readonly day: number;
  readonly call: string;
  readonly reserve: { readonly tokens: number; readonly nano: number };
  charged: { tokens: number; nano: number };
  open: boolean;
}

const BUDGETS: Readonly<Record<string, Budget>> = {
  "agent/a": { daily: { usd: 1, requests: 12 }, monthly: { usd: 2.5 }, unknownPrice: "refuse" },
  "agent/b": { daily: { tokens: 300 }, unknownPrice: "refuse" },
  "provider/p": { daily: { usd: 1.5 }, monthly: { requests: 30 }, unknownPrice: "refuse" },
  "key/k": { monthly: { tokens: 900, usd: 2 }, unknownPrice: "allow" },
};

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("reserve" as const),
      agent: fc.constantFrom("a", "b", undefined),
      key: fc.constantFrom("k", undefined),
      provider: fc.constantFrom("p", "q"),
      tokens: fc.integer({ min: 0, max: 120 }),
      usd: fc.integer({ min: 0, max: 400_000_000 }).map((nano) => nano / 1e9),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      which: fc.nat(),
      tokens: fc.integer({ min: 1, max: 200 }),
      usd: fc.integer({ min: 0, max: 500_000_000 }).map((nano) => nano / 1e9),
      how: fc.constantFrom("answered" as const, "failed" as const, "cancelled" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("turn" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("crash" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("later" as const), ms: fc.constantFrom(1000, 3_600_000, DAY_MS, 9 * DAY_MS) }) },
);

function fits(entries: readonly Entry[], now: number, wanted: Entry): boolean {
  return wanted.scopes.every((scope) =>
    PERIODS.every((period: Period) => {
      const limits = BUDGETS[scope]?.[period] ?? {};
      const { from, to } = daysOf(period, now);
      const own = [...entries, wanted].filter((entry) => entry.scopes.includes(scope) && entry.day >= from && entry.day <= to);
      const sum = (of: (entry: Entry) => number): number => own.reduce((total, entry) => total + of(entry), 0);
      return (
        (limits.usd === undefined || sum((entry) => entry.charged.nano) <= nanoOf(limits.usd)) &&
        (limits.tokens === undefined || sum((entry) => entry.charged.tokens) <= limits.tokens) &&
        (limits.requests === undefined || own.length <= limits.requests)
      );
    }),
  );
}

test("after any interleaving, crash and rebuild it adds up with the simplest account and no limit is passed but by what settled above its reserve", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
      let at = rig(BUDGETS);
      const entries: Entry[] = [];
      for (const each of steps) {
        if (each.do === "turn") await turn();
        else if (each.do === "later") at.time.now += each.ms;
        else if (each.do === "crash") {
          at = at.restart();
          for (const entry of entries) entry.open = false;
        } else if (each.do === "reserve") {
          const request = spend({
            provider: each.provider,
            tokens: each.tokens,
            usd: each.usd,
            ...(each.key !== undefined && { key: each.key }),
          });
          const { agent: _agent, ...bare } = request;
          const asked =
            each.agent === undefined ? bare : { ...request, agent: { namespace: "default", name: each.agent, uid: each.agent } };
          const reserve = { tokens: each.tokens, nano: nanoOf(each.usd) };
          const scopes = [
            ...(each.agent ? [`agent/${each.agent}`] : []),
            ...(each.key ? [`key/${each.key}`] : []),
            `provider/${each.provider}`,
          ];
          const entry: Entry = { scopes, call: request.call, day: Math.floor(at.time.now / DAY_MS), reserve, charged: reserve, open: true };
          const wanted = fits(entries, at.time.now, entry);
          expect(refusal(() => at.ledger.reserve(asked)) === undefined).toBe(wanted);
          if (wanted) entries.push(entry);
        } else {
          const running = entries.filter((entry) => entry.open);
          const entry = running[each.which % Math.max(1, running.length)];
          if (entry === undefined) continue;
          at.ledger.settle(entry.call, used(each.tokens, each.usd), each.how);
          entry.open = false;
          entry.charged = { tokens: each.tokens, nano: nanoOf(each.usd) };
        }
        checkLines(at, entries);
      }
      checkStore(at, entries);
      at.close();
    }),
    { numRuns: 60 },
  );
}, 60_000);

function checkLines(at: Rig, entries: readonly Entry[]): void {
  for (const line of at.ledger.budgets()) {
    const { from, to } = daysOf(line.period, at.time.now);
    const scope = `${line.scope.kind}/${line.scope.name}`;
    const own = entries.filter((entry) => entry.scopes.includes(scope) && entry.day >= from && entry.day <= to);
    const amount = (part: { readonly tokens: number; readonly nano: number }): number =>
      line.measure === "usd" ? part.nano : line.measure === "tokens" ? part.tokens : 1;
    const unit = line.measure === "usd" ? 1e9 : 1;
    const sum = (some: readonly Entry[]): number => some.reduce((total, entry) => total + amount(entry.charged), 0);
    expect([scope, line.period, line.measure, Math.round(line.spent * unit), Math.round(line.reserved * unit)]).toEqual([
      scope,
      line.period,
      line.measure,
      sum(own.filter((entry) => !entry.open)),
      sum(own.filter((entry) => entry.open)),
    ]);
    const above = own.reduce((total, entry) => total + Math.max(0, amount(entry.charged) - amount(entry.reserve)), 0);
    expect(sum(own)).toBeLessThanOrEqual(Math.round(line.limit * unit) + above);
  }
}

/** The rows and the sums by day are two ways to say the same. */
function checkStore(at: Rig, entries: readonly Entry[]): void {
  at.book.flush();
  const rows = at.db.prepare("SELECT count(*) AS n, coalesce(sum(tokens), 0) AS tokens, coalesce(sum(nano), 0) AS nano FROM ledger").get();
  const days = at.db
    .prepare(
      "SELECT coalesce(sum(requests), 0) AS n, coalesce(sum(tokens), 0) AS tokens, coalesce(sum(nano), 0) AS nano FROM spending WHERE scope LIKE 'provider/%'",
    )
    .get();
  expect(days).toEqual(rows);
  expect(rows).toEqual({
    n: entries.length,
    tokens: entries.reduce((total, entry) => total + entry.charged.tokens, 0),
    nano: entries.reduce((total, entry) => total + entry.charged.nano, 0),
  });
}
