import { spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Resource } from "../../core/resource.ts";
import { manualClock, seededRandom, silentLog, type ManualClock } from "../fixture.ts";
import { newObject } from "../object.ts";
import { ref, temporary } from "../rig.ts";
import { openStore, type Store } from "../store.ts";

let home: string;
let clock: ManualClock;
let store: Store;
const opened = (): Store => openStore({ home, clock, random: seededRandom(3), log: silentLog });
beforeEach(() => {
  home = temporary();
  clock = manualClock();
  store = opened();
});
afterEach(() => {
  store.close();
  rmSync(home, { recursive: true, force: true });
});

const object = (name: string, size = 1, uid = `uid-${name}`): Resource =>
  newObject(ref(name), { spec: { size }, managedFields: [] }, { uid, now: 0 });
const put = (name: string, size = 1, uid?: string) =>
  store.objects.write([{ type: "put", object: object(name, size, uid), revision: { manager: "m", fields: [] } }], "full");
const sizes = (s: Store): unknown => s.objects.list("Box").map((o) => `${o.metadata.name} ${(o.spec as { size: number }).size}`);

/** Rows of each commit that the store told. */
function commits(): string[][] {
  const told: string[][] = [];
  store.objects.subscribe((rows) => void told.push(rows.map((row) => `${row.object.metadata.name}@${row.rv}`)));
  return told;
}

test("writes of one moment are one commit, in the order in which they came, and each sees those before it", async () => {
  const told = commits();
  const answers = await Promise.all([
    store.objects.together(() => put("a")[0]?.rv),
    store.objects.together(() => put("b", store.objects.list().length)[0]?.rv),
    store.objects.together(() => put("a", 7)[0]?.rv),
  ]);
  expect(answers).toEqual([1, 2, 3]);
  expect(told).toEqual([["a@1", "b@2", "a@3"]]);
  expect(store.history.page("Box", 0, 10)?.rows.map((row) => [row.type, row.rv])).toEqual([
    ["ADDED", 1],
    ["ADDED", 2],
    ["MODIFIED", 3],
  ]);
  store.close();
  store = opened();
  expect(sizes(store)).toEqual(["a 7", "b 1"]);
});

test("nobody is answered, and nothing is seen, before the commit", async () => {
  const answered: string[] = [];
  const one = store.objects.together(() => put("a")).then(() => answered.push("a"));
  expect([store.objects.list(), answered]).toEqual([[], []]);
  store.objects.subscribe(() => void answered.push("told"));
  await one;
  expect(answered).toEqual(["told", "a"]);
});

test("one that fails takes back its own writes and nobody else's, in memory, on disk and in the history", async () => {
  const told = commits();
  const results = await Promise.allSettled([
    store.objects.together(() => put("a")),
    store.objects.together(() => {
      put("a", 5);
      put("b");
      throw new Error("changed its mind");
    }),
    // Another object of the same name: the disk refuses it.
    store.objects.together(() => put("a", 9, "other")),
    store.objects.together(() => put("d", sizesNow())),
  ]);
  expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "rejected", "fulfilled"]);
  expect(told).toEqual([["a@1", "d@2"]]);
  expect(sizes(store)).toEqual(["a 1", "d 1"]);
  expect([store.objects.version(), store.objects.get(ref("b")), store.objects.byUid("uid-b")]).toEqual([2, undefined, undefined]);
  store.close();
  store = opened();
  expect([sizes(store), store.objects.version()]).toEqual([["a 1", "d 1"], 2]);
});
const sizesNow = (): number => store.objects.list().length;

test("the first of a group may fail as well", async () => {
  const failing = store.objects.together(() => {
    put("a");
    throw new Error("no");
  });
  const good = store.objects.together(() => put("b"));
  await expect(failing).rejects.toThrow("no");
  expect((await good)[0]?.rv).toBe(1);
  expect(sizes(store)).toEqual(["b 1"]);
});

test("a commit that the disk refuses fails for all of them, leaves all as it was, and the next one works", async () => {
  put("a");
  const holder = new DatabaseSync(`${home}/state.db`);
  holder.exec("BEGIN IMMEDIATE");
  const both = await Promise.allSettled([store.objects.together(() => put("a", 2)), store.objects.together(() => put("b"))]);
  holder.exec("ROLLBACK");
  holder.close();
  expect(both.map((one) => one.status === "rejected" && (one.reason as { code: string }).code)).toEqual(["unavailable", "unavailable"]);
  expect([sizes(store), store.objects.version()]).toEqual([["a 1"], 1]);
  await store.objects.together(() => put("b"));
  expect([sizes(store), store.objects.version()]).toEqual([["a 1", "b 1"], 2]);
});

test("what takes long is committed in several steps, so that the event loop is not held", async () => {
  let workedMs = 0;
  store.close();
  store = openStore({ home, clock: { ...clock, monotonic: () => workedMs }, random: seededRandom(3), log: silentLog });
  const told = commits();
  const slow = (name: string) =>
    store.objects.together(() => {
      put(name);
      workedMs += 15;
    });
  await Promise.all(["a", "b", "c", "d", "e"].map(slow));
  expect(told).toEqual([["a@1", "b@2"], ["c@3", "d@4"], ["e@5"]]);
});

const WRITER = `
import { openStore } from "${new URL("../store.ts", import.meta.url).pathname}";
import { newObject } from "${new URL("../object.ts", import.meta.url).pathname}";
const log = { debug() {}, info() {}, warn() {}, error() {} };
const store = openStore({ home: process.argv[2], clock: { now: Date.now, monotonic: () => performance.now() }, random: { uuid: () => crypto.randomUUID() }, log });
const writer = async (name) => {
  for (let round = 1; ; round++) {
    await store.objects.together(() => {
      const object = newObject({ kind: "Box", namespace: "default", name }, { spec: { round }, managedFields: [] }, { uid: name, now: 0 });
      store.objects.write([{ type: "put", object, revision: { manager: "m", fields: [] } }], "full");
    });
    process.stdout.write(name + " " + round + "\\n");
  }
};
for (let i = 0; i < 16; i++) void writer("o" + i);
`;

test("who was answered is there after the process was killed", async () => {
  store.close();
  writeFileSync(`${home}/writer.mjs`, WRITER);
  for (const answers of [20, 300]) {
    const child = spawn(process.execPath, [`${home}/writer.mjs`, home], { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    const ended = new Promise((resolve) => child.stdout.on("close", resolve));
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString();
      if (text.split("\n").length > answers) child.kill("SIGKILL");
    });
    await ended;
    store = opened();
    const rounds = new Map(store.objects.list("Box").map((o) => [o.metadata.name, (o.spec as { round: number }).round]));
    const last = new Map(
      text
        .split("\n")
        .slice(0, -1)
        .map((line) => line.split(" ") as [string, string]),
    );
    expect(last.size).toBe(16);
    for (const [name, round] of last) expect(rounds.get(name)).toBeGreaterThanOrEqual(Number(round));
    store.close();
    rmSync(`${home}/state.db`);
    rmSync(`${home}/state.db-wal`, { force: true });
    rmSync(`${home}/state.db-shm`, { force: true });
  }
});
