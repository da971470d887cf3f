// What was said reaches the gateway once and in order, whatever happens on the way.
import fc from "fast-check";
import { expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import type { Entry, Gateway, Talk } from "./gateway.ts";
import { createKeeper, withoutOwn, type Keeper } from "./keeper.ts";

type Fault = "none" | "down" | "lost" | "busy";

/** Files as the gateway keeps them; a fault happens to each request in turn. */
function rig(faults: readonly Fault[] = []) {
  const files = new Map<string, Entry[]>();
  const entries: Entry[] = [];
  const trouble: (string | undefined)[] = [];
  const moved: Talk[] = [];
  let request = 0;
  const gateway = {
    entries: async ({ session }: Talk) => files.get(session) ?? [],
    async append({ session }: Talk, given: readonly Entry[], after: string | null) {
      const fault = faults[request++] ?? "none";
      if (fault === "down") throw new BeigeError("unavailable", "no gateway answers");
      if (fault === "busy") throw new BeigeError("conflict", "the session is in use");
      const file = files.get(session) ?? [];
      if ((file.at(-1)?.id ?? null) !== after) throw new BeigeError("conflict", "the session went on");
      files.set(session, [...file, ...given]);
      if (fault === "lost") throw new BeigeError("unavailable", "the gateway went away in the middle of its answer");
      return { last: given.at(-1)?.id ?? "" };
    },
  } as unknown as Gateway;
  const hears = { onTrouble: (text: string | undefined) => void trouble.push(text), onMoved: (talk: Talk) => void moved.push(talk) };
  const keeper = (had = 0): Keeper =>
    createKeeper(
      gateway,
      {
        talk: { agent: "a", session: "tui:1" },
        entries: () => entries,
        had,
        after: entries[had - 1]?.id ?? null,
        newKey: () => "tui:other",
        retryMs: 1,
      },
      hears,
    );
  return { files, entries, trouble, moved, keeper };
}

const message = (id: string, parentId: string | null, role = "user"): Entry => ({
  type: "message",
  id,
  parentId,
  message: { role, content: id },
});
const ids = (entries: readonly Entry[] | undefined): readonly string[] => (entries ?? []).map((entry) => entry.id);

test("a conversation in which nothing was said leaves no trace", async () => {
  const { files, entries, keeper } = rig();
  entries.push({ type: "model_change", id: "m", parentId: null }, message("s", "m", "system"));
  expect(await keeper().flush(100)).toBe(0);
  expect(files.size).toBe(0);
});

test("what could not be told waits, and is told once: over a gateway that is down, busy, or dies after it wrote", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom<Fault>("none", "down", "lost", "busy"), { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 5 }),
      async (faults, bursts) => {
        const { files, entries, keeper, moved } = rig(faults);
        const kept = keeper();
        for (const burst of bursts) {
          for (let i = 0; i < burst; i++) entries.push(message(`e${entries.length}`, entries.at(-1)?.id ?? null));
          kept.touch();
          await new Promise((done) => setTimeout(done, 1));
        }
        expect(await kept.flush(5000)).toBe(0);
        expect(ids(files.get("tui:1"))).toEqual(ids(entries));
        expect(moved).toEqual([]);
      },
    ),
    { numRuns: 60 },
  );
});

test("a gateway that stays away is named, and the end says how many entries it has not", async () => {
  const { entries, trouble, keeper } = rig(Array.from({ length: 1000 }, () => "down" as const));
  entries.push(message("a", null), message("b", "a"));
  expect(await keeper().flush(30)).toBe(2);
  expect(trouble).toContain("no gateway answers");
});

test("a conversation that went on elsewhere goes on here as one of its own, without the gateway's own entries", async () => {
  const { files, entries, moved, keeper } = rig();
  const inbox: Entry = { type: "custom", customType: "beige.inbox", id: "i", parentId: "a" };
  entries.push(message("a", null), inbox, message("b", "i"));
  files.set("tui:1", [...entries, message("elsewhere", "b")]);
  const kept = keeper(3);
  entries.push(message("c", "b"));
  expect(await kept.flush(1000)).toBe(0);
  expect(moved).toEqual([{ agent: "a", session: "tui:other" }]);
  expect(kept.talk().session).toBe("tui:other");
  expect((files.get("tui:other") ?? []).map((entry) => [entry.id, entry.parentId])).toEqual([
    ["a", null],
    ["b", "a"],
    ["c", "b"],
  ]);
  expect(ids(files.get("tui:1"))).toEqual(["a", "i", "b", "elsewhere"]);
});

test("every parent is there after the gateway's own entries were left out", () => {
  const shape = fc.array(fc.record({ own: fc.boolean(), parent: fc.nat() }), { maxLength: 30 });
  fc.assert(
    fc.property(shape, (drawn) => {
      const entries = drawn.map(({ own, parent }, at): Entry => {
        const parentId = at === 0 ? null : `e${parent % at}`;
        return own ? { type: "custom", customType: "beige.inbox", id: `e${at}`, parentId } : message(`e${at}`, parentId);
      });
      const known = new Set<string | null | undefined>([null]);
      for (const entry of withoutOwn(entries)) {
        expect(known.has(entry.parentId)).toBe(true);
        known.add(entry.id);
      }
    }),
  );
});
