import fc from "fast-check";
import { expect, test } from "vitest";
import type { Agent, Schedule } from "../../src/core/resource.ts";
import type { View } from "../../src/core/kind.ts";
import type { Firing } from "../../src/core/world.ts";
import { planSchedule, slotText, type ScheduleFacts } from "./plan.ts";

const START = Date.parse("2026-01-01T00:00:00Z");
const DAY = 86_400_000;

const agent = { metadata: { name: "travel", namespace: "default", uid: "u" }, spec: { suspend: false } } as unknown as Agent;

function scheduleOf(spec: Partial<Schedule["spec"]> = {}, observed?: Record<string, unknown>): Schedule {
  return {
    apiVersion: "beige.dev/v1",
    kind: "Schedule",
    metadata: {
      name: "s",
      namespace: "default",
      uid: "s-uid",
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: new Date(START).toISOString(),
    },
    spec: {
      agent: "travel",
      cron: "0 9 * * *",
      timeZone: "UTC",
      input: "go",
      concurrency: "forbid",
      catchUp: "once",
      catchUpWindowSeconds: 604_800,
      suspend: false,
      ...spec,
    },
    ...(observed === undefined ? {} : { status: { observedGeneration: 1, conditions: [], observed } }),
  };
}

const viewAt = (now: number): View => ({
  now,
  store: "store",
  home: "/home/x/.beige",
  defaultHome: true,
  get: (ref) => (ref.kind === "Agent" ? agent : undefined),
  list: () => [],
  origin: () => undefined,
  host: { secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } },
});

const facts = (last?: Firing, more: Partial<ScheduleFacts> = {}): ScheduleFacts => ({
  uid: "s-uid",
  running: 0,
  firing: true,
  zone: "UTC",
  ...(last === undefined ? {} : { last }),
  ...more,
});

const fired = (slotMs: number): Firing => ({ slot: slotText(slotMs), claimedAt: slotMs, outcome: "done", endedAt: slotMs });

test("a time that was dealt with is never due again, even after the clock is set back", () => {
  const nine = START + 9 * 3_600_000;
  for (const now of [nine, nine + 1000, nine - DAY, nine + DAY - 1])
    expect(planSchedule({ object: scheduleOf(), deleting: false }, facts(fired(nine)), viewAt(now)).actions).toEqual([]);
});

test("the wait ends at the next time, and at the latest after an hour", () => {
  const at = (iso: string) => planSchedule({ object: scheduleOf(), deleting: false }, facts(), viewAt(Date.parse(iso))).wait?.ms;
  expect(at("2026-01-01T08:59:30Z")).toBe(30_000);
  expect(at("2026-01-01T01:00:00Z")).toBe(3_600_000);
});

test("whatever the past, a pass fires or records at most one time, never a future one, and the next pass nothing", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("0 9 * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 * *"),
      fc.constantFrom("UTC", "Europe/Vienna", "America/New_York"),
      fc.integer({ min: 0, max: 400 * DAY }),
      fc.option(fc.integer({ min: -DAY, max: 400 * DAY }), { nil: undefined }),
      fc.constantFrom("once" as const, "none" as const),
      (cron, timeZone, elapsed, lastAt, catchUp) => {
        const now = START + elapsed;
        const object = scheduleOf({ cron, timeZone, catchUp });
        const last = lastAt === undefined ? undefined : fired(Math.floor((START + lastAt) / 60_000) * 60_000);
        const plan = planSchedule({ object, deleting: false }, facts(last), viewAt(now));
        if (plan.actions.length === 0) return true;
        const [action] = plan.actions;
        if (plan.actions.length > 1 || action === undefined || action.type === "stop") return false;
        const slotMs = Date.parse(action.slot);
        const again = planSchedule({ object, deleting: false }, facts(fired(slotMs)), viewAt(now));
        return slotMs <= now && (last === undefined || slotMs > Date.parse(last.slot)) && again.actions.length === 0;
      },
    ),
    { numRuns: 200 },
  );
});

test("a zone that the manifest does not name is the host's, and is shown", () => {
  const object = scheduleOf();
  const { timeZone: _zone, ...spec } = object.spec;
  const plan = planSchedule({ object: { ...object, spec }, deleting: false }, facts(undefined, { zone: "Europe/Vienna" }), viewAt(START));
  expect(plan.observed).toMatchObject({ timeZone: "Europe/Vienna", next: "2026-01-01T09:00:00+01:00" });
});
