// A real gateway with budgets: spends are counted once, refused at the limit, and still there after a kill.
import { expect, test } from "vitest";
import { makeGateway } from "../gateway.ts";

const STACK = (budget: string): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: local}
spec:
  api: echo
  models: [{id: m, maxTokens: 1000, cost: {input: 1000, output: 1000}}]
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: local, id: m}
  instructions: Be short.
  budget: ${budget}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: free}
spec:
  model: {provider: local, id: unpriced}
  budget: {monthly: {usd: 1}}
`;

test("an agent's budget stops it with exit 8, is told as an event, shown by usage, describe and metrics, and outlives a kill", async () => {
  const gateway = makeGateway({ env: { DOCKER_HOST: "unix:///nonexistent/docker.sock" } });
  const prompt = (agent = "a") => gateway.beige("prompt", agent, "--new", "hello there");
  const apply = (budget: string) =>
    gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder: gateway.home, text: STACK(budget) }], wait: false });
  const usage = async () => (await gateway.request("GET", "/api/usage?by=agent")).body;
  try {
    await gateway.start();
    await apply("{daily: {requests: 3, usd: 100}}");
    for (const _ of [1, 2, 3]) expect(await prompt()).toMatchObject({ code: 0 });
    const refused = await prompt();
    expect(refused.code).toBe(8);
    expect(refused.err).toMatch(/the daily budget of agent 'a' is used up: 3 requests of 3 requests spent.*it resets at .*T00:00:00.000Z/);
    expect(refused.err).toContain("raise spec.budget.daily.requests of Agent a and apply");
    expect(await prompt("free")).toMatchObject({ code: 2, err: expect.stringContaining("cost of 'unpriced' in Provider local") });

    const before = await usage();
    expect(before.items).toMatchObject([{ name: "a", requests: 3, open: 0, unpriced: 0 }]);
    expect(before.total.usd).toBeGreaterThan(0);
    const events = (await gateway.request("GET", "/api/events?kind=Agent&name=a")).body.items as { reason: string }[];
    expect(events.filter(({ reason }) => reason === "BudgetUsedUp")).toHaveLength(1);
    expect((await gateway.beige("describe", "agent/a")).out).toMatch(/^Budget +\$[\d.]+ of \$100\.00 a day/m);
    expect((await gateway.beige("usage")).out).toMatch(/^agent\/a +3 of 3 requests a day \(100 %\)/m);
    const metrics = String((await gateway.request("GET", "/metrics")).body);
    expect(metrics).toContain('beige_llm_requests_total{provider="local",model="m",outcome="ok"} 3');
    expect(metrics).toContain('beige_provider_slots_used{provider="local"} 0');
    expect(metrics).toMatch(/beige_turns_total\{outcome="ok"\} 3/);
    expect(metrics).toMatch(/beige_reconciles_total\{kind="Agent",outcome="\w+"\} \d+/);
    expect(metrics).toMatch(/beige_llm_time_to_first_token_seconds_count\{provider="local",model="m"\} 3/);

    await gateway.kill();
    await gateway.start();
    expect((await usage()).items).toEqual(before.items);
    expect((await prompt()).code).toBe(8);
    await apply("{daily: {requests: 4, usd: 100}}");
    expect((await prompt()).code).toBe(0);
    await apply("{daily: {usd: 0.01}}");
    expect(await prompt()).toMatchObject({ code: 8, err: expect.stringContaining("of $0.01 spent") });
  } finally {
    await gateway.clean();
  }
}, 60_000);
