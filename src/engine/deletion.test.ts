import { afterEach, beforeEach, expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import { condition, type Condition } from "../core/resource.ts";
import { DELETE_DEADLINE_MS, OVERDUE } from "./deletion.ts";
import { applied, box, createRig, file, ref, type Rig } from "./rig.ts";

let rig: Rig;
beforeEach(async () => {
  rig = await createRig();
  await applied(rig, [file("s.yaml", box("a"))]);
});
afterEach(async () => rig.close());

const deleting = (): Condition | undefined => condition(rig.engine.get(ref("a")), "Deleting");
const told = (): readonly string[] =>
  rig.engine
    .events({ ref: ref("a") })
    .flatMap((e) => (e.type === "Warning" && e.reason === "Deleting" ? [`${e.message} x${e.count}`] : []));
/** Fails every effect from now on. */
const stuck = (error: BeigeError): void => {
  rig.toy.fault = {
    get n() {
      return 1;
    },
    set n(_left) {},
    when: "before",
    error,
  };
};
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 10_000) await rig.clock.advance(Math.min(left, 10_000));
}

test("an object that is to stay has no such condition", () => {
  expect(deleting()).toBeUndefined();
});

test("until the deadline describe says what the deletion waits for, and from then on what to do; it is tried on, and told once", async () => {
  rig.toy.down = true;
  await rig.engine.delete(ref("a"), { dryRun: false, force: false });
  const since = Date.parse(rig.engine.get(ref("a")).metadata.deletionTimestamp ?? "");
  await pass(60_000);
  const deadline = new Date(since + DELETE_DEADLINE_MS).toISOString();
  expect(deleting()).toMatchObject({
    status: "True",
    reason: "Waiting",
    message: `waits for the engine does not answer; deadline ${deadline}`,
  });
  expect(told()).toEqual([]);
  await pass(DELETE_DEADLINE_MS);
  const next = "start the container engine (beige doctor), and it goes on by itself; or: beige delete box/a --force forgets it";
  expect(deleting()).toMatchObject({ reason: OVERDUE, message: expect.stringContaining(`next: ${next}`) });
  expect(told()).toHaveLength(1);
  rig = await rig.restart();
  await pass(DELETE_DEADLINE_MS);
  expect(told()).toEqual([expect.stringMatching(/ x1$/)]);
  expect(rig.toy.things.size).toBe(1);
  rig.toy.down = false;
  await pass(120_000);
  expect(rig.engine.list("Box", {}).items).toEqual([]);
  expect(rig.toy.things.size).toBe(0);
});

test("a failing step is named, with its own hint where it has one", async () => {
  stuck(new BeigeError("unavailable", "box a is busy", { hint: "close its lid" }));
  await rig.engine.delete(ref("a"), { dryRun: false, force: false });
  await pass(60_000);
  expect(deleting()?.message).toMatch(/^waits for remove box a: box a is busy; deadline /);
  await pass(DELETE_DEADLINE_MS);
  expect(deleting()?.message).toMatch(/next: close its lid; or: beige delete box\/a --force /);
  expect(rig.toy.things.size).toBe(1);
});

test("a step that can never succeed is still looked at when the deadline passes, though nothing else wakes it", async () => {
  stuck(new BeigeError("denied", "box a is nailed down"));
  await rig.engine.delete(ref("a"), { dryRun: false, force: false });
  await pass(DELETE_DEADLINE_MS + 1_000);
  expect(deleting()).toMatchObject({ reason: OVERDUE, message: expect.stringContaining("next: beige delete box/a --force forgets it") });
});
