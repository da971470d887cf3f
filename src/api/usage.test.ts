import { afterEach, expect, test } from "vitest";
import type { Principal } from "../core/call.ts";
import type { Keys } from "../core/keys.ts";
import type { Accounts, UsageAsk } from "../core/ledger.ts";
import { rig, type Rig } from "./rig.ts";

let at: Rig | undefined;
afterEach(async () => at?.end());

const line = { name: "a", requests: 1, input: 1, output: 1, cacheRead: 0, cacheWrite: 0, tokens: 2, usd: 0.5, unpriced: 0, open: 0 };
const asked: UsageAsk[] = [];
const accounts: Accounts = {
  usage: async (ask) => {
    asked.push(ask);
    return { by: ask.by, since: "s", until: "u", items: [line], total: line };
  },
  budgets: (scope) => [
    { scope: scope ?? { kind: "key", name: "k" }, period: "daily", measure: "usd", limit: 1, spent: 0.5, reserved: 0, resetsAt: "r" },
  ],
};

test("usage is asked by a closed set of words and within a time", async () => {
  at = await rig({ accounts });
  const now = Date.parse("2026-03-05T00:01:00Z");
  const answer = await at.ask("GET /api/usage?by=model&since=2026-03-01T00:00:00Z");
  expect([answer.status, answer.json.items, answer.json.budgets]).toMatchObject([200, [line], [{ spent: 0.5 }]]);
  expect(asked.at(-1)).toEqual({ by: "model", since: Date.parse("2026-03-01T00:00:00Z"), until: now + 1, limit: 100 });
  await at.ask("GET /api/usage");
  expect(asked.at(-1)).toMatchObject({ by: "agent", since: now - 7 * 86_400_000 });
  const bad = ["by=secret", "since=yesterday", "since=2026-03-02&until=2026-03-01", "since=9e99", "by=a&by=b"];
  for (const query of bad) expect([query, (await at.ask(`GET /api/usage?${query}`)).status]).toEqual([query, 400]);
});

test("describe tells how the budgets of an agent and of a provider stand", async () => {
  at = await rig({ accounts });
  at.control.put("Agent", "travel");
  at.control.put("Agent", "travel", {}, { namespace: "ops" });
  const scopeOf = async (query: string): Promise<unknown> => (await at?.ask(`GET /api/describe?${query}`))?.json.budgets[0].scope;
  expect(await scopeOf("kind=agent&name=travel")).toEqual({ kind: "agent", name: "travel" });
  expect(await scopeOf("kind=agent&name=travel&namespace=ops")).toEqual({ kind: "agent", name: "ops.travel" });
});

test("metrics are served on every door to whoever may look, and to nobody else", async () => {
  at = await rig({ metrics: { text: async () => ({ type: "text/plain; version=0.0.4; charset=utf-8", body: "# HELP x y\n" }) } });
  for (const tcp of [true, false]) {
    const answer = await at.ask("GET /metrics", { tcp });
    expect([answer.status, answer.headers["content-type"], answer.text]).toEqual([
      200,
      "text/plain; version=0.0.4; charset=utf-8",
      "# HELP x y\n",
    ]);
  }
  expect((await at.ask("GET /metrics", { tcp: true, headers: { authorization: "Bearer wrong" } })).status).toBe(401);
  expect((await at.ask("GET /api/usage", { tcp: true, headers: { authorization: "Bearer wrong" } })).status).toBe(401);
});

test("a key that may look sees them, and one that may only call its agents does not", async () => {
  const principal = (secret: string): Principal =>
    secret === "v" ? { kind: "viewer", key: "v" } : { kind: "caller", key: "c", agents: ["*"] };
  const keys = { find: (secret: string) => ({ ok: true, name: secret, principal: principal(secret) }), spend: () => undefined };
  const metrics = { text: async () => ({ type: "text/plain", body: "# HELP x y\n" }) };
  at = await rig({ accounts, metrics, keys: keys as unknown as Keys });
  const status = async (path: string, key: string) =>
    (await at?.ask(`GET ${path}`, { tcp: true, headers: { authorization: `Bearer ${key}` } }))?.status;
  for (const path of ["/metrics", "/api/usage"]) expect([await status(path, "v"), await status(path, "c")]).toEqual([200, 403]);
});

test("a gateway without ledger and metrics says so", async () => {
  at = await rig();
  for (const path of ["/metrics", "/api/usage"]) expect((await at.ask(`GET ${path}`)).status).toBe(404);
});
