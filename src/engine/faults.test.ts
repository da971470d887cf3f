import { afterEach, expect, test } from "vitest";
import { condition } from "../core/resource.ts";
import { turns } from "./fixture.ts";
import { applied, box, createRig, file, ref, type Rig } from "./rig.ts";

let rig: Rig;
afterEach(async () => rig.close());

const cond = (name: string) => condition(rig.engine.get(ref(name)), "Ready");
const byName = (a: readonly unknown[], b: readonly unknown[]): number => String(a[0]).localeCompare(String(b[0]));

test("fail the nth effect, before or after it lands, for every n: healed, all converges to the same world", async () => {
  const stack = [file("a.yaml", box("a"), box("b", { size: 2, on: "a" }), box("c", { size: 3 }))];
  const change = [file("a.yaml", box("a", { size: 5 }), box("b", { size: 2, color: "red", on: "a" }))];
  rig = await createRig();
  await rig.close();
  for (const when of ["before", "after"] as const) {
    for (let n = 1; n <= 13; n++) {
      rig = await createRig();
      rig.toy.fault = { n, when };
      await applied(rig, stack);
      await applied(rig, change, { prune: true });
      await rig.clock.advance(65_000);
      expect([...rig.toy.things.values()].map((t) => [t.ref.name, t.size, t.color, t.started]).toSorted(byName)).toEqual([
        ["a", 5, "beige", true],
        ["b", 2, "red", true],
      ]);
      expect([cond("a")?.status, cond("b")?.status]).toEqual(["True", "True"]);
      const begun = rig.toy.rows.filter((r) => r.phase === "begin").length;
      expect(begun).toBeGreaterThanOrEqual(rig.toy.effects);
      await rig.close();
    }
  }
});

test("a crash right after the transaction converges at the next start", async () => {
  rig = await createRig();
  rig.toy.down = true;
  await applied(rig, [file("a.yaml", box("a"), box("b", { size: 2, on: "a" }))], { wait: false });
  rig.crash();
  rig.toy.down = false;
  rig = await rig.restart();
  await rig.clock.advance(100);
  expect([cond("a")?.status, cond("b")?.status]).toEqual(["True", "True"]);
});

test("a crash after any effect converges at the next start, with one thing an object", async () => {
  rig = await createRig();
  await rig.close();
  for (let n = 1; n <= 4; n++) {
    rig = await createRig();
    rig.toy.fault = { n, when: "after" };
    await applied(rig, [file("a.yaml", box("a"), box("b", { size: 2, on: "a" }))], { wait: false });
    await turns(5);
    rig = await rig.restart();
    await rig.clock.advance(1_000);
    expect([...rig.toy.things.values()].map((t) => [t.ref.name, t.started]).toSorted(byName)).toEqual([
      ["a", true],
      ["b", true],
    ]);
    if (n < 4) await rig.close();
  }
});
