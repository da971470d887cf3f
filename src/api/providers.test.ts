import { afterEach, expect, test } from "vitest";
import type { Principal } from "../core/call.ts";
import { rig, type Rig } from "./rig.ts";

let at: Rig | undefined;
afterEach(async () => at?.end());

const providers = {
  seen: (name: string) => ({
    slots: { limit: 1, used: 0, waiting: 0 },
    models: [
      { id: "a", failures: 0 },
      ...(name === "zai" ? [{ id: "b/c", failures: 2, coolingUntil: Date.parse("2026-03-05T01:00:00Z"), lastError: "429 slow down" }] : []),
    ],
  }),
};

test("the health of every provider's models is told to operators and viewers, and to nobody else", async () => {
  const principal = (secret: string): Principal =>
    secret === "v" ? { kind: "viewer", key: "v" } : { kind: "caller", key: "c", agents: ["*"] };
  const keys = { find: (secret: string) => ({ ok: true, name: secret, principal: principal(secret) }), spend: () => undefined };
  at = await rig({ providers, keys: keys as never });
  at.control.put("Provider", "zai");
  at.control.put("Provider", "anthropic");
  const items = [
    { provider: "anthropic", model: "a", failures: 0 },
    { provider: "zai", model: "a", failures: 0 },
    { provider: "zai", model: "b/c", failures: 2, coolingUntil: "2026-03-05T01:00:00.000Z", lastError: "429 slow down" },
  ];
  expect((await at.ask("GET /api/providers/health")).json).toEqual({ items });
  const as = (secret: string) => ({ tcp: true, headers: { authorization: `Bearer ${secret}` } });
  expect((await at.ask("GET /api/providers/health", as("v"))).json).toEqual({ items });
  expect((await at.ask("GET /api/providers/health", as("c"))).status).toBe(403);
});

test("a gateway without any says so", async () => {
  at = await rig();
  expect((await at.ask("GET /api/providers/health")).status).toBe(404);
});
