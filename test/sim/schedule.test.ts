// Schedules fire once, or say why not: on the fake world with the real engine and its real store.
import { afterEach, expect, test } from "vitest";
import { agent, apply, close, crash, createSim, object, plugin, provider, reopen, restart, schedule, state, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

// Ten to nine: simulated hours cost real time.
const START = Date.UTC(2026, 0, 1, 8, 50);
const HOUR = 3_600_000;
const MINUTE = 60_000;
const stackOf = (spec: object = {}, agentSpec: Record<string, unknown> = {}) => [
  provider(),
  agent("travel", agentSpec),
  schedule("morning", spec),
];
const observed = () => object(sim, "morning", "Schedule").status?.observed;
const last = () => sim.store.firings.last(object(sim, "morning", "Schedule").metadata.uid);
const audited = () => sim.audit.rows.filter((one) => one.row.type === "schedule");

/** The gateway is away for a time. */
async function away(ms: number, setUp: () => void = () => undefined): Promise<void> {
  await crash(sim);
  await sim.clock.advance(ms);
  setUp();
  sim = await reopen(sim);
}

test("it fires at its time, once, as itself, with a claim and an audit row before the turn", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({ cron: "0,30 9 * * *" }));
  expect(observed()).toMatchObject({ next: "2026-01-01T09:00:00Z", timeZone: "UTC" });
  await sim.clock.advance(9 * MINUTE);
  expect(sim.turns.started).toEqual([]);
  await sim.clock.advance(2 * MINUTE);
  expect(sim.turns.started.map((turn) => turn.request)).toMatchObject([
    {
      principal: { kind: "schedule", name: "morning" },
      agent: { name: "travel", namespace: "default" },
      text: "go",
      session: "schedule:morning",
    },
  ]);
  expect(last()).toMatchObject({ slot: "2026-01-01T09:00:00Z", outcome: "started" });
  expect(audited()).toMatchObject([{ phase: "note", row: { tool: "morning", args: ["2026-01-01T09:00:00Z"], principal: "schedule" } }]);
  sim.turns.started[0]?.end();
  expect(last()).toMatchObject({ outcome: "done" });
  await sim.clock.advance(2 * MINUTE);
  expect(observed()).toMatchObject({ next: "2026-01-01T09:30:00Z", last: "2026-01-01T09:00:00Z", lastOutcome: "done" });
  await sim.clock.advance(30 * MINUTE);
  expect(sim.turns.started.length).toBe(2);
});

test("a turn that fails is shown with its reason", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf());
  await sim.clock.advance(11 * MINUTE);
  sim.turns.started[0]?.end("no model answered");
  await sim.clock.advance(2 * MINUTE);
  expect(observed()).toMatchObject({ lastOutcome: "failed", lastMessage: "no model answered" });
});

test("a gateway that is down from 8:59 to 9:01 catches the nine o'clock run up, once (P105)", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf());
  await sim.clock.advance(9 * MINUTE);
  await away(2 * MINUTE);
  expect(sim.turns.started.length).toBe(1);
  expect(last()).toMatchObject({ slot: "2026-01-01T09:00:00Z", outcome: "started" });
  sim = await restart(sim);
  await sim.clock.advance(10 * MINUTE);
  expect(sim.turns.started).toEqual([]);
});

test("a week of downtime fires once, for the latest time", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf());
  await away(7 * 24 * HOUR);
  expect(sim.turns.started.length).toBe(1);
  expect(last()?.slot).toBe("2026-01-07T09:00:00Z");
});

test("without catch-up a missed time is recorded as missed, with the reason (P105)", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({ catchUp: "none" }));
  await away(4 * 24 * HOUR);
  expect(sim.turns.started).toEqual([]);
  expect(last()).toMatchObject({
    slot: "2026-01-04T09:00:00Z",
    outcome: "missed",
    message: expect.stringContaining("catchUp is none (and 3 before it)") as string,
  });
});

test("a time that is older than its catch-up window is missed (P107)", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({ catchUpWindowSeconds: 3600 }));
  await away(2 * HOUR);
  expect(sim.turns.started).toEqual([]);
  expect(last()).toMatchObject({ outcome: "missed", message: expect.stringContaining("more than catchUpWindowSeconds 3600") as string });
});

test("a run that the gateway died in is shown as interrupted, and its time does not fire again (P107)", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf());
  await sim.clock.advance(10 * MINUTE + 35_000);
  await away(MINUTE);
  expect(sim.turns.started).toEqual([]);
  expect(observed()).toMatchObject({ last: "2026-01-01T09:00:00Z", lastOutcome: "interrupted" });
});

test.each([
  ["forbid", 1, "skipped"],
  ["allow", 2, "started"],
  ["replace", 2, "started"],
])("while the last run goes on, concurrency %s leads to %i turns, the last claim %s", async (concurrency, turns, outcome) => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({ concurrency, cron: "0,5 9 * * *" }));
  await sim.clock.advance(16 * MINUTE);
  expect(sim.turns.started.length).toBe(turns);
  expect(last()).toMatchObject({ slot: "2026-01-01T09:05:00Z", outcome });
  const uid = object(sim, "morning", "Schedule").metadata.uid;
  expect(sim.turns.running(uid)).toBe(concurrency === "allow" ? 2 : 1);
});

test("a suspended schedule does not fire, and does not make up for it afterwards", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({ cron: "0,30 9 * * *", suspend: true }));
  await sim.clock.advance(20 * MINUTE);
  expect(state(sim, "Suspended", "morning", "Schedule")?.status).toBe("True");
  const version = sim.engine.version();
  await sim.clock.advance(5 * MINUTE);
  expect(sim.engine.version()).toBe(version);
  await apply(sim, stackOf({ cron: "0,30 9 * * *" }));
  await sim.clock.advance(5 * MINUTE);
  expect(sim.turns.started).toEqual([]);
  await sim.clock.advance(15 * MINUTE);
  expect(sim.turns.started.length).toBe(1);
});

test("a changed expression counts from the change on", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({ cron: "0 0 1 7 *" }));
  await sim.clock.advance(20 * MINUTE);
  await apply(sim, stackOf({ cron: "0 9 * * *" }));
  await sim.clock.advance(5 * MINUTE);
  expect(sim.turns.started).toEqual([]);
  expect(observed()).toMatchObject({ next: "2026-01-02T09:00:00Z" });
});

test("a gateway without schedules says so and fires nothing", async () => {
  sim = await createSim({ startMs: START, setUp: (m) => void (m.firing = false) });
  const { end } = await apply(sim, stackOf());
  expect(end.exit).toBe(0);
  await sim.clock.advance(20 * MINUTE);
  expect(sim.turns.started).toEqual([]);
  expect(state(sim, "Ready", "morning", "Schedule")).toMatchObject({ reason: "SchedulesOff" });
  await away(MINUTE, () => void (sim.firing = true));
  expect(sim.turns.started.length).toBe(1);
});

test("a suspended agent is not prompted: the time is recorded as skipped", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf({}, { suspend: true }));
  await sim.clock.advance(20 * MINUTE);
  expect(sim.turns.started).toEqual([]);
  expect(last()).toMatchObject({ outcome: "skipped", message: expect.stringContaining("is suspended") as string });
});

test("nothing is started when the audit cannot be written, and the time is not tried again and again", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf());
  await sim.clock.advance(9 * MINUTE);
  const note = sim.audit.note.bind(sim.audit);
  sim.audit.note = () => Promise.reject(new Error("disk full"));
  await sim.clock.advance(10 * MINUTE);
  sim.audit.note = note;
  await sim.clock.advance(5 * MINUTE);
  expect(sim.turns.started).toEqual([]);
  expect(last()).toMatchObject({ outcome: "failed", message: expect.stringContaining("disk full") as string });
});

test("deleting a schedule ends its run", async () => {
  sim = await createSim({ startMs: START });
  await apply(sim, stackOf());
  await sim.clock.advance(11 * MINUTE);
  const { uid } = object(sim, "morning", "Schedule").metadata;
  await sim.engine.delete({ kind: "Schedule", namespace: "default", name: "morning" }, { dryRun: false, force: false });
  await sim.clock.advance(5000);
  expect(sim.turns.running(uid)).toBe(0);
  expect(() => object(sim, "morning", "Schedule")).toThrow(/does not exist/);
});

test("bad expressions and zones are problems before anything is stored", async () => {
  sim = await createSim({ startMs: START });
  const { end, events } = await apply(sim, [...stackOf({ cron: "61 * * * *", timeZone: "Mars/Olympus" }), plugin()]);
  expect(end.exit).toBe(2);
  const problems = events.find((event) => event.type === "problems")?.problems ?? [];
  expect(problems.map((problem) => [problem.path, problem.message])).toEqual([
    ["/spec/cron", expect.stringContaining("61")],
    ["/spec/timeZone", "time zone 'Mars/Olympus' is not known"],
  ]);
  expect(sim.engine.list("Plugin", {}).items).toEqual([]);
});
