import { afterEach, beforeEach, expect, test } from "vitest";
import type { WatchEvent } from "../core/control.ts";
import type { Resource } from "../core/resource.ts";
import { manualClock, seededRandom, silentLog, turns, type ManualClock } from "./fixture.ts";
import { newObject } from "./object.ts";
import { ref, temporary } from "./rig.ts";
import { openStore, type Store } from "./store.ts";
import { createWatch, type WatchOptions } from "./watch.ts";
import { rmSync } from "node:fs";

let home: string;
let clock: ManualClock;
let store: Store;
let stop: AbortController;
beforeEach(() => {
  home = temporary();
  clock = manualClock();
  store = openStore({ home, clock, random: seededRandom(3), log: silentLog, limits: { history: { rows: 50, bytes: 1e9, recent: 10 } } });
  stop = new AbortController();
});
afterEach(() => {
  stop.abort();
  store.close();
  rmSync(home, { recursive: true, force: true });
});

const object = (name: string, size: number, labels: Record<string, string> = {}): Resource =>
  newObject(ref(name), { spec: { size }, labels, managedFields: [] }, { uid: `uid-${name}`, now: 0 });
const put = (...objects: readonly Resource[]) =>
  store.objects.write(
    objects.map((o) => ({ type: "put", object: o })),
    "full",
  );

const show = (event: WatchEvent): string =>
  "object" in event
    ? `${event.type} ${event.object.metadata.name}@${event.object.metadata.resourceVersion}`
    : event.type === "BOOKMARK"
      ? `BOOKMARK ${event.resourceVersion}`
      : event.type;

/** Reads in the background; `take` gives what came so far. */
function watched(options: WatchOptions = {}, kind = "Box") {
  const got: string[] = [];
  let ended = false;
  const run = async (): Promise<void> => {
    for await (const events of createWatch(store, clock)(kind, options, stop.signal)) got.push(...events.map(show));
    ended = true;
  };
  void run();
  return { got, ended: () => ended };
}

test("without a version the current state comes as ADDED, then what changes", async () => {
  put(object("a", 1), object("b", 1));
  const w = watched();
  await turns();
  put(object("b", 2));
  store.objects.write([{ type: "remove", ref: ref("a") }], "full");
  await turns();
  expect(w.got).toEqual(["ADDED a@1", "ADDED b@2", "MODIFIED b@3", "DELETED a@4"]);
});

test("from a version on nothing is missing and nothing comes twice", async () => {
  put(object("a", 1));
  put(object("a", 2));
  put(object("b", 1));
  const w = watched({ resourceVersion: "1" });
  await turns();
  put(object("a", 3));
  await turns();
  expect(w.got).toEqual(["MODIFIED a@2", "ADDED b@3", "MODIFIED a@4"]);
});

test("a watch resumes over a restart of the store", async () => {
  put(object("a", 1));
  put(object("a", 2));
  store.close();
  store = openStore({ home, clock, random: seededRandom(3), log: silentLog });
  const w = watched({ resourceVersion: "1" });
  await turns();
  expect(w.got).toEqual(["MODIFIED a@2"]);
});

test.each(["1", "999", "abc", "-1", "1e3"])("version %s that is not kept, or never was, ends with EXPIRED", async (resourceVersion) => {
  for (let i = 0; i < 120; i++) put(object("a", i));
  const w = watched({ resourceVersion });
  await turns();
  expect(w.got).toEqual(["EXPIRED"]);
  expect(w.ended()).toBe(true);
});

test("a reader that falls too far behind ends with EXPIRED, and took no memory meanwhile", async () => {
  put(object("a", 0));
  const reader = createWatch(store, clock)("Box", { resourceVersion: "1" }, stop.signal)[Symbol.asyncIterator]();
  put(object("a", 1));
  expect((await reader.next()).value).toMatchObject([{ type: "MODIFIED" }]);
  for (let i = 2; i < 200; i++) put(object("a", i));
  const rest: string[] = [];
  for (let next = await reader.next(); next.done !== true; next = await reader.next()) rest.push(...next.value.map(show));
  expect(rest).toEqual(["EXPIRED"]);
});

test("changes of one commit come together, and everybody who selects nothing gets the same list", async () => {
  put(object("a", 1));
  const readers = ["1", "1"].map((resourceVersion) =>
    createWatch(store, clock)("Box", { resourceVersion }, stop.signal)[Symbol.asyncIterator](),
  );
  const firsts = readers.map((reader) => reader.next());
  await turns();
  put(object("b", 1), object("c", 1));
  const [one, two] = (await Promise.all(firsts)).map((step): readonly WatchEvent[] => (step.done === true ? [] : step.value));
  expect(one?.map(show)).toEqual(["ADDED b@2", "ADDED c@3"]);
  expect(one).toBe(two);
});

test("a watch of a quiet kind does not fall behind while another kind changes much", async () => {
  put(object("a", 0));
  const other = watched({ resourceVersion: "1", bookmarks: true }, "Other");
  await turns();
  for (let i = 1; i < 200; i++) {
    put(object("a", i));
    if (i % 20 === 0) await turns();
  }
  await clock.advance(31_000);
  expect(other.got).toEqual(["BOOKMARK 200"]);
  expect(other.ended()).toBe(false);
});

test("an object that comes into a selection is ADDED, one that leaves it is DELETED", async () => {
  put(object("a", 1, { team: "x" }), object("b", 1, { team: "y" }));
  const w = watched({ labelSelector: "team=x" });
  await turns();
  put(object("b", 1, { team: "x" }));
  put(object("b", 2, { team: "x" }));
  put(object("a", 1, { team: "z" }));
  put(object("a", 2, { team: "z" }));
  await turns();
  expect(w.got).toEqual(["ADDED a@1", "ADDED b@3", "MODIFIED b@4", "DELETED a@5"]);
});

test("other kinds and namespaces are not told", async () => {
  const w = watched({ namespace: "team" });
  const other = watched({}, "Other");
  await turns();
  put(object("a", 1));
  await turns();
  expect([w.got, other.got]).toEqual([[], []]);
});

test("bookmarks come about every thirty seconds when asked for, with the newest version", async () => {
  const w = watched({ bookmarks: true });
  const without = watched();
  await turns();
  put(object("a", 1));
  await clock.advance(61_000);
  expect(w.got).toEqual(["ADDED a@1", "BOOKMARK 1", "BOOKMARK 1"]);
  expect(without.got).toEqual(["ADDED a@1"]);
});

test("a watch ends with its signal", async () => {
  const w = watched();
  await turns();
  stop.abort();
  await turns();
  expect(w.ended()).toBe(true);
});

test("a bad selector is refused before the stream begins", () => {
  expect(() => createWatch(store, clock)("Box", { labelSelector: "a=(" }, stop.signal)).toThrow(/label selector/);
  expect(() => createWatch(store, clock)("Box", { fieldSelector: "spec.size=1" }, stop.signal)).toThrow(/field selector/);
});
