import { afterEach, expect, test } from "vitest";
import type { AuditRow } from "../core/audit.ts";
import { rig, type Rig } from "./rig.ts";

let at: Rig | undefined;
afterEach(async () => at?.end());

const row = (seq: number, phase: AuditRow["phase"]): AuditRow =>
  ({
    seq,
    phase,
    agent: "travel",
    type: "egress",
    tool: "connect",
    args: [],
    decision: "allowed",
    host: "a.dev",
    port: 443,
  }) as unknown as AuditRow;

test("the record of an agent's connections is told without the rows that announce them", async () => {
  const asked: unknown[] = [];
  at = await rig({
    audit: {
      tail: async (n, filter) => {
        asked.push([n, filter]);
        return [row(1, "begin"), row(2, "end"), row(3, "denied")];
      },
    },
  });
  at.control.put("Agent", "travel");
  const answer = await at.ask("GET /api/agents/travel/egress?limit=1&decision=denied");
  expect(answer.json.items.map(({ seq }: AuditRow) => seq)).toEqual([3]);
  expect(asked).toEqual([[2, { type: "egress", agent: "travel", decision: "denied" }]]);
  expect((await at.ask("GET /api/agents/none/egress")).status).toBe(404);
  for (const bad of ["limit=x", "limit=1&limit=2"])
    expect([bad, (await at.ask(`GET /api/agents/travel/egress?${bad}`)).status]).toEqual([bad, 400]);
});

test("a target is judged for the agent of the path, and must be there", async () => {
  const asked: unknown[] = [];
  at = await rig({
    egress: {
      test: async (agent, target) => {
        asked.push([agent.name, target]);
        return { target, allowed: false, addresses: [], reason: "not listed", hint: "list it" };
      },
    },
  });
  at.control.put("Agent", "travel");
  expect((await at.ask("GET /api/agents/travel/egress/test?target=a.dev:443")).json).toMatchObject({ allowed: false, hint: "list it" });
  expect(asked).toEqual([["travel", "a.dev:443"]]);
  expect((await at.ask("GET /api/agents/travel/egress/test")).status).toBe(400);
});
