import { expect, test } from "vitest";
import type { BudgetLine, UsageLine } from "../core/ledger.ts";
import { json, stand } from "./harness.ts";
import { budgetText, tokensText } from "./render/spend.ts";

const line = (name: string, part: Partial<UsageLine>): UsageLine => ({
  name,
  requests: 1,
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  tokens: 0,
  usd: 0,
  unpriced: 0,
  open: 0,
  ...part,
});
const budget: BudgetLine = {
  scope: { kind: "agent", name: "travel" },
  period: "daily",
  measure: "usd",
  limit: 5,
  spent: 4.2,
  reserved: 0.3,
  resetsAt: "2026-12-01T00:00:00.000Z",
};
const report = {
  by: "agent",
  since: "2026-11-23T00:00:00.000Z",
  until: "2026-11-30T00:00:00.000Z",
  items: [
    line("travel", { requests: 12, input: 12_345, output: 950, cacheRead: 1_500_000, usd: 4.2 }),
    line("local", { requests: 3, input: 10, output: 10, unpriced: 3 }),
  ],
  total: line("total", { requests: 15, input: 12_355, output: 960, cacheRead: 1_500_000, usd: 4.2, unpriced: 3 }),
  budgets: [budget],
};

test("usage is a table of spend and of budgets, and JSON for programs", async () => {
  const gateway = await stand({ "GET /api/usage": ({ response }) => json(response, report) });
  const ran = await gateway.run(["usage"]);
  expect(ran).toMatchObject({ code: 0, err: "3 requests went to models without a price: set spec.models[].cost of the Provider\n" });
  expect(ran.out.split("\n")).toEqual([
    "AGENT    REQUESTS   INPUT   OUTPUT   CACHED      COST",
    "travel         12   12.3k      950     1.5M     $4.20",
    "local           3      10       10        0   unknown",
    "total          15   12.4k      960     1.5M    $4.20+",
    "",
    "BUDGET         SPENT                                         RESETS",
    "agent/travel   $4.20 of $5.00 a day, $0.30 reserved (90 %)   2026-12-01T00:00:00.000Z",
    "",
  ]);
  expect(JSON.parse((await gateway.run(["usage", "-o", "json", "--by", "model", "--since", "30d"])).out)).toEqual(report);
  expect(gateway.asked.at(-1)).toMatch(/^GET \/api\/usage\?by=model&since=\d+$/);
  await gateway.close();
});

test("a wrong time or word is refused before anything is asked", async () => {
  const gateway = await stand({});
  for (const args of [
    ["--since", "last week"],
    ["--since", "2026-99-99"],
    ["--by", "secret"],
    ["--since", "1d", "--until", "2d"],
  ])
    expect([args, (await gateway.run(["usage", ...args])).code]).toEqual([args, 2]);
  expect(gateway.asked).toEqual([]);
  await gateway.close();
});

test("a key is made with a budget by flags, and an odd amount is refused before anything is asked", async () => {
  const bodies: unknown[] = [];
  const gateway = await stand({
    "POST /api/keys": ({ response, body }) => {
      bodies.push(body);
      json(response, { name: "ci", role: "caller", agents: ["a"], createdAt: 0, used: { requests: 0, sessions: 0 }, secret: "bge_x" }, 201);
    },
  });
  const create = (...flags: readonly string[]) => gateway.run(["key", "create", "ci", "--agent", "a", ...flags]);
  // The key is made all the same, and the only line on standard output.
  expect(await create("--budget-daily-usd", "0.5", "--budget-monthly-tokens", "1000")).toMatchObject({
    code: 0,
    out: "bge_x\n",
    err: expect.stringMatching(/\nthere is no agent a yet: beige get agents -A\n$/) as string,
  });
  expect(bodies).toMatchObject([{ budget: { daily: { usd: 0.5 }, monthly: { tokens: 1000 }, unknownPrice: "refuse" } }]);
  for (const odd of ["-1", "five", "1e3", "NaN"]) expect((await create(`--budget-daily-usd=${odd}`)).code).toBe(2);
  expect((await create("--budget-daily-tokens", "1.5")).code).toBe(2);
  expect(bodies).toHaveLength(1);
  await gateway.close();
});

test("amounts and budgets read as people write them", () => {
  expect([tokensText(950), tokensText(12_345), tokensText(999_949), tokensText(999_951), tokensText(4_500_000)]).toEqual([
    "950",
    "12.3k",
    "999.9k",
    "1.0M",
    "4.5M",
  ]);
  expect(budgetText({ ...budget, measure: "tokens", period: "monthly", limit: 2000, spent: 1999, reserved: 0 })).toBe(
    "2.0k of 2000 tokens a month (99 %)",
  );
  expect(budgetText({ ...budget, limit: 0, spent: 0, reserved: 0 })).toBe("$0.00 of $0.00 a day");
});
