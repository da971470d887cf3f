// Histories of applies, prunes and deletions of several sets, against a simple model: what leaves a set goes, guards hold, and nothing of another set is touched.
import fc from "fast-check";
import { expect, test } from "vitest";
import { applied, box, createRig, file, ref, settle, type Rig } from "./rig.ts";

const RUNS = Number(process.env["BEIGE_RUNS"] ?? "60");
const NAMES = ["a", "b", "c", "d", "e", "f", "g"] as const;
const SETS = ["one", "two"] as const;

type Step =
  | { readonly do: "delete"; readonly name: string }
  | {
      readonly do: "apply";
      readonly set: (typeof SETS)[number];
      readonly names: readonly string[];
      readonly prune: boolean;
      readonly allowEmpty: boolean;
      readonly maxDeletes: number | string | undefined;
    };

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ do: fc.constant("delete" as const), name: fc.constantFrom(...NAMES) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("apply" as const),
      set: fc.constantFrom(...SETS),
      names: fc.subarray([...NAMES]),
      prune: fc.boolean(),
      allowEmpty: fc.boolean(),
      maxDeletes: fc.constantFrom<(number | string | undefined)[]>(undefined, undefined, 0, 1, 3, 100, "0%", "50%", "100%"),
    }),
  },
);

/** Names by set, and those that exist. */
interface Model {
  readonly held: ReadonlyMap<string, ReadonlySet<string>>;
  readonly there: ReadonlySet<string>;
}

const heldBy = ({ held }: Model, set: string): ReadonlySet<string> => held.get(set) ?? new Set();
const without = (set: ReadonlySet<string>, gone: ReadonlySet<string>): ReadonlySet<string> =>
  new Set([...set].filter((name) => !gone.has(name)));

/** Gone is gone: from every set. */
const forget = ({ held, there }: Model, gone: ReadonlySet<string>): Model => ({
  held: new Map([...held].map(([set, names]) => [set, without(names, gone)])),
  there: without(there, gone),
});

function next(model: Model, step: Step): { readonly model: Model; readonly exit: number } {
  if (step.do === "delete") return { model: forget(model, new Set([step.name])), exit: model.there.has(step.name) ? 0 : 1 };
  const { set, names, prune } = step;
  if (names.length === 0 && !prune) return { model, exit: 2 };
  const own = heldBy(model, set);
  const left = [...own].filter((name) => !names.includes(name));
  const elsewhere = (name: string): boolean => SETS.some((other) => other !== set && heldBy(model, other).has(name));
  const goes = prune ? left.filter((name) => !elsewhere(name)) : [];
  const given = step.maxDeletes ?? "30%";
  const most = typeof given === "number" ? given : Math.max(1, Math.floor((own.size * Number.parseInt(given, 10)) / 100));
  const allowed = goes.length === 0 || (names.length === 0 ? step.allowEmpty : goes.length <= most);
  if (!allowed) return { model, exit: 3 };
  const kept = prune ? new Set(names) : new Set([...own, ...names]);
  const after = { held: new Map([...model.held, [set, kept]]), there: new Set([...model.there, ...names]) };
  return { model: forget(after, new Set(goes)), exit: 0 };
}

async function really(rig: Rig, step: Step): Promise<number> {
  if (step.do === "delete") {
    return settle(rig, rig.engine.delete(ref(step.name), { dryRun: false, force: false })).then(
      async () => {
        await rig.clock.advance(5_000);
        return 0;
      },
      () => 1,
    );
  }
  const { set, names, prune, allowEmpty, maxDeletes } = step;
  const files = [file("s.yaml", ...names.map((name) => box(name)))];
  const done = await applied(rig, files, { set, prune, allowEmpty, ...(maxDeletes === undefined ? {} : { maxDeletes }) });
  return done.end.exit;
}

const sorted = (names: Iterable<string>): readonly string[] => [...names].toSorted();

test("whatever sets are applied, pruned and deleted from, what is there and who holds it is as a simple model says", async () => {
  const ends = new Set<number>();
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 3, maxLength: 8 }), async (history) => {
      const rig = await createRig();
      try {
        let model: Model = { held: new Map(), there: new Set() };
        for (const step of history) {
          const untouched = rig.engine.list("Box", {}).items;
          const wanted = next(model, step);
          const exit = await really(rig, step);
          ({ model } = wanted);
          ends.add(exit);
          const items = rig.engine.list("Box", {}).items;
          expect([exit, sorted(items.map((one) => one.metadata.name))]).toEqual([wanted.exit, sorted(model.there)]);
          for (const set of SETS)
            expect(sorted(rig.store.records.held(`apply/${set}`).map((one) => one.name))).toEqual(sorted(heldBy(model, set)));
          // A refusal leaves every object as it was; and nobody is made anew by what concerns others.
          const uids = new Map(items.map((one) => [one.metadata.name, one.metadata.uid]));
          for (const { metadata } of untouched) if (uids.has(metadata.name)) expect(uids.get(metadata.name)).toBe(metadata.uid);
          expect(sorted([...rig.toy.things.values()].map((thing) => thing.ref.name))).toEqual(sorted(model.there));
        }
      } finally {
        await rig.close();
      }
    }),
    { numRuns: RUNS, seed: 20_261_201 },
  );
  expect([...ends].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
}, 120_000);
