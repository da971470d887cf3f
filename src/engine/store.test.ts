import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import type { Resource } from "../core/resource.ts";
import { manualClock, seededRandom, silentLog, type ManualClock } from "./fixture.ts";
import { newObject } from "./object.ts";
import { ref, temporary } from "./rig.ts";
import { networkName, preparePlace } from "./store/place.ts";
import { openStore, type Store, type StoreDeps } from "./store.ts";

let home: string;
let clock: ManualClock;
let store: Store | undefined;
const opened = (more: Partial<StoreDeps> = {}): Store => {
  store = openStore({ home, clock, random: seededRandom(3), log: silentLog, ...more });
  return store;
};
beforeEach(() => {
  home = temporary();
  clock = manualClock();
});
afterEach(() => {
  store?.close();
  rmSync(home, { recursive: true, force: true });
});

const object = (name: string, more: { size?: number; uid?: string; labels?: Record<string, string> } = {}): Resource =>
  newObject(
    ref(name),
    { spec: { size: more.size ?? 1 }, managedFields: [], ...(more.labels === undefined ? {} : { labels: more.labels }) },
    { uid: more.uid ?? `uid-${name}`, now: clock.now() },
  );
const put = (o: Resource) => ({ type: "put" as const, object: o });
const grown = (o: Resource, size: number): Resource => ({
  ...o,
  spec: { size },
  metadata: { ...o.metadata, generation: o.metadata.generation + 1 },
});
const revision = { manager: "m", fields: ["size"] };

test("what was written is there after the store was opened again, with the same id and version", () => {
  const first = opened();
  first.objects.write([{ ...put(object("a")), origin: "/stack", revision }, put(object("b"))], "full");
  first.agents.setActive("uid-a", "container");
  first.agents.setIntent("uid-a", { type: "replace", data: { to: "x" }, startedAt: 5 });
  first.shelf.set("k", "v");
  const { id } = first;
  const version = first.objects.version();
  first.close();
  const again = opened();
  expect(again.id).toBe(id);
  expect(again.objects.version()).toBe(version);
  expect(again.objects.list("Box").map((o) => o.metadata.name)).toEqual(["a", "b"]);
  expect(again.objects.origin(ref("a"))).toBe("/stack");
  expect(again.agents.active("uid-a")).toBe("container");
  expect(again.intents.intent("uid-a")).toEqual({ type: "replace", data: { to: "x" }, startedAt: 5 });
  expect(again.shelf.get("k")).toBe("v");
});

test("all files are readable by their owner alone", () => {
  opened().objects.write([put(object("a"))], "full");
  for (const name of ["state.db", "state.db-wal", "state.lock", "state.pid"]) expect(statSync(`${home}/${name}`).mode & 0o777).toBe(0o600);
});

test("a second opener of the home is refused and told who has it; after a close the home is free", () => {
  const first = opened();
  const second = (): Store => openStore({ home, clock, random: seededRandom(4), log: silentLog });
  expect(second).toThrow(expect.objectContaining({ code: "conflict", message: `${home} is in use by process ${process.pid}` }));
  expect(second).toThrow(BeigeError);
  first.objects.write([put(object("a"))], "full");
  first.close();
  second().close();
});

test("a write that changes nothing writes nothing", () => {
  const s = opened();
  s.objects.write([put(object("a"))], "full");
  const version = s.objects.version();
  expect(s.objects.write([put(object("a"))], "full")).toEqual([]);
  expect(s.objects.write([put(s.objects.get(ref("a")) as Resource)], "quick")).toEqual([]);
  expect(s.objects.version()).toBe(version);
});

test("a transaction is all or nothing, in memory, on disk and in the history", () => {
  const s = opened();
  s.objects.write([put(object("a"))], "full");
  const version = s.objects.version();
  // The second one breaks the rule that a uid names one object.
  expect(() =>
    s.objects.write(
      [put(grown(object("a"), 5)), put(object("b")), put({ ...object("b"), metadata: { ...object("b").metadata, uid: "other" } })],
      "full",
    ),
  ).toThrow(BeigeError);
  expect(s.objects.version()).toBe(version);
  expect(s.objects.list().map((o) => [o.metadata.name, o.spec])).toEqual([["a", { size: 1 }]]);
  s.objects.write([put(object("c"))], "full");
  expect(s.objects.version()).toBe(version + 1);
});

test("what readers get cannot be changed by them", () => {
  const s = opened();
  s.objects.write([put(object("a"))], "full");
  const got = s.objects.get(ref("a")) as { spec: { size: number } };
  expect(() => {
    got.spec.size = 9;
  }).toThrow(TypeError);
});

test("only the last ten revisions are kept, newest first", () => {
  const s = opened();
  let now = object("a");
  for (let size = 1; size <= 15; size++) {
    s.objects.write([{ ...put(now), revision }], "full");
    now = grown(now, size + 1);
  }
  expect(s.records.revisions("uid-a").map((r) => r.revision)).toEqual([15, 14, 13, 12, 11, 10, 9, 8, 7, 6]);
});

test("a removed object leaves nothing behind but its history and its host user", () => {
  const s = opened({ owner: { uid: 0, gid: 0 } });
  s.objects.write(
    [
      { ...put(object("a")), revision },
      { type: "hold", manager: "apply/x", ref: ref("a") },
    ],
    "full",
  );
  s.agents.setActive("uid-a", "c");
  s.agents.setIntent("uid-a", { type: "t", data: {}, startedAt: 1 });
  const user = s.agents.hostUser("uid-a");
  s.objects.write([{ type: "remove", ref: ref("a") }], "full");
  expect([s.objects.get(ref("a")), s.objects.byUid("uid-a"), s.agents.active("uid-a"), s.intents.intent("uid-a")]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect([s.records.revisions("uid-a"), s.records.held("apply/x")]).toEqual([[], []]);
  expect(s.agents.hostUser("uid-b").uid).toBe(user.uid + 1);
});

test("as root every agent has a host user of its own from 20000 on; otherwise it is the gateway's", () => {
  const root = opened({ owner: { uid: 0, gid: 0 } });
  expect(["x", "y", "x"].map((uid) => root.agents.hostUser(uid))).toEqual([
    { uid: 20_000, gid: 20_000 },
    { uid: 20_001, gid: 20_001 },
    { uid: 20_000, gid: 20_000 },
  ]);
  root.close();
  expect(opened({ owner: { uid: 1000, gid: 100 } }).agents.hostUser("z")).toEqual({ uid: 1000, gid: 100 });
});

test("an object takes the user of a container over, unless another has it or no sandbox could; later ones count on", () => {
  const store = opened({ owner: { uid: 0, gid: 0 } });
  const root = store.agents;
  const user = (uid: number, gid = uid) => ({ uid, gid });
  expect(root.hostUser("first")).toEqual(user(20_000));
  const asked = [user(20_000), user(0), user(1000), user(60_000), user(20_007, 0), user(20_007)].map((one) => root.takeUser("a", one));
  expect(asked).toEqual([false, false, false, false, false, true]);
  expect([root.takeUser("a", user(20_007)), root.takeUser("a", user(20_008)), root.takeUser("b", user(20_007))]).toEqual([
    true,
    false,
    false,
  ]);
  expect([root.hostUser("a"), root.hostUser("c")]).toEqual([user(20_007), user(20_008)]);
  store.close();
  const plain = opened({ owner: { uid: 1000, gid: 100 } }).agents;
  expect([plain.takeUser("a", user(1000, 100)), plain.takeUser("a", user(20_000))]).toEqual([true, false]);
});

test("the history is bounded by rows, and versions before it are no longer kept", () => {
  const s = opened({ limits: { history: { rows: 100, bytes: 1e9, recent: 20 } } });
  for (let i = 0; i < 300; i++) s.objects.write([put(object(`o${i}`))], "quick");
  expect(s.history.page("Box", 10, 10)).toBeUndefined();
  expect(s.history.page("Box", 250, 1_000)?.rows.map((r) => r.rv)).toEqual(Array.from({ length: 50 }, (_, i) => 251 + i));
  expect(s.history.page("Box", 290, 5)).toMatchObject({ upTo: 295 });
  expect(s.history.page("Other", 250, 5)).toEqual({ rows: [], upTo: 300 });
  expect(s.history.page("Box", 301, 5)).toBeUndefined();
});

test("the history is bounded by bytes too", () => {
  const s = opened({ limits: { history: { rows: 1_000, bytes: 50_000, recent: 5 } } });
  for (let i = 0; i < 100; i++) s.objects.write([put(object(`o${i}`, { labels: { big: "x".repeat(2_000) } }))], "full");
  const db = new DatabaseSync(`${home}/state.db`, { readOnly: true });
  expect(Number(db.prepare("SELECT sum(length(body)) AS n FROM history").get()?.["n"])).toBeLessThan(60_000);
  db.close();
});

test("a claimed slot is never claimed again, and a run that a dead gateway left open is interrupted", () => {
  const first = opened();
  expect(first.firings.claim("s", "2026-01-01T00:00:00Z", "started")).toBe(true);
  expect(first.firings.claim("s", "2026-01-01T00:00:00Z", "started")).toBe(false);
  expect(first.firings.claim("s", "2026-01-02T00:00:00Z", "started")).toBe(true);
  first.firings.finish("s", "2026-01-01T00:00:00Z", "done");
  first.close();
  const again = opened();
  expect(again.firings.last("s")).toMatchObject({ slot: "2026-01-02T00:00:00Z", outcome: "interrupted" });
  again.firings.finish("s", "2026-01-02T00:00:00Z", "done");
  expect(again.firings.last("s")?.outcome).toBe("interrupted");
  expect(again.firings.last("t")).toBeUndefined();
});

test("firings of a schedule are bounded", () => {
  const s = opened();
  for (let i = 0; i < 150; i++) s.firings.claim("s", new Date(i * 60_000).toISOString(), "skipped", "busy");
  const db = new DatabaseSync(`${home}/state.db`, { readOnly: true });
  expect(db.prepare("SELECT count(*) AS n FROM firings").get()?.["n"]).toBe(100);
  db.close();
});

test("the shelf lists by prefix in key order, whatever stands in the keys", () => {
  const s = opened();
  for (const key of ["a/2", "a/1", "a", "b", "a0", "a/\u{10ffff}", "a%", "a_", "\u{10ffff}", "\u{d7ff}x"])
    s.shelf.set(key, key, key === "a/1");
  expect(s.shelf.list("a/").map((r) => r.key)).toEqual(["a/1", "a/2", "a/\u{10ffff}"]);
  expect(s.shelf.list("").length).toBe(10);
  expect(s.shelf.list("\u{10ffff}").map((r) => r.key)).toEqual(["\u{10ffff}"]);
  expect(s.shelf.list("\u{d7ff}").map((r) => r.key)).toEqual(["\u{d7ff}x"]);
  s.shelf.delete("a/1");
  expect(s.shelf.get("a/1")).toBeUndefined();
});

test("events are counted instead of repeated, and bounded by number and age", () => {
  const s = opened({ limits: { events: { rows: 100, ageMs: 10_000, message: 50 } } });
  const event = (message: string) => ({ ref: ref("a"), uid: "u", type: "Normal" as const, reason: "Created" as const, message });
  for (let i = 0; i < 5; i++) s.events.record(event("same"));
  expect(s.events.list({ ref: ref("a") })).toMatchObject([{ count: 5, message: "same", reason: "Created" }]);
  for (let i = 0; i < 500; i++) s.events.record(event(`m${i}`));
  expect(s.events.list({}).length).toBeLessThanOrEqual(106);
  expect(s.events.list({ limit: 2 }).map((e) => e.message)).toEqual(["m498", "m499"]);
  expect(s.events.list({ namespace: "other" })).toEqual([]);
  return clock.advance(20_000).then(() => {
    for (let i = 0; i < 10; i++) s.events.record(event(`late${i} ${"x".repeat(100)}`));
    expect(s.events.list({}).length).toBeLessThanOrEqual(10);
    expect(s.events.list({}).every((e) => e.message.length <= 50)).toBe(true);
  });
});

test.each([
  ["no database at all", () => "this is a text, and long enough to be looked at as a header, which it is not, " + "x".repeat(5_000)],
  ["a torn page", () => readFileSync(`${home}/state.db`).fill(0xff, 4_096, 12_288)],
])("%s is said with what to do, and left as it is", (_name, content) => {
  opened().objects.write(
    Array.from({ length: 200 }, (_, i) => put(object(`o${i}`))),
    "full",
  );
  store?.close();
  writeFileSync(`${home}/state.db`, content());
  const before = readFileSync(`${home}/state.db`);
  expect(() => opened()).toThrow(expect.objectContaining({ code: "unavailable", hint: expect.stringContaining("mv ") }));
  expect(readFileSync(`${home}/state.db`).equals(before)).toBe(true);
});

test("a store of a newer beige is refused", () => {
  opened().close();
  const db = new DatabaseSync(`${home}/state.db`);
  db.exec("PRAGMA user_version = 99");
  db.close();
  expect(() => opened()).toThrow(/newer beige \(format 99/);
});

test("a folder that cannot be made is said", () => {
  writeFileSync(`${home}/plain`, "");
  expect(() => openStore({ home: `${home}/plain/x`, clock, random: seededRandom(1), log: silentLog })).toThrow(
    expect.objectContaining({ code: "unavailable" }),
  );
});

test.each([
  [0x6969, "nfs"],
  [0xff534d42, "cifs"],
  [-11317950, "cifs"],
  [0xfe534d42, "smb2"],
  [0x01021997, "9p"],
  [0xef53, undefined],
  [0x01021994, undefined],
  [0x794c7630, undefined],
])("file system %s is %s", (type, name) => {
  expect(networkName(type)).toBe(name);
});

test("a network file system is refused with a hint", () => {
  mkdirSync(`${home}/n`);
  expect(() => preparePlace(`${home}/n`, () => 0x6969)).toThrow(expect.objectContaining({ hint: expect.stringContaining("local disk") }));
});

test("a store that cannot be written says so, keeps what it had, and goes on afterwards", () => {
  const s = opened();
  s.objects.write([put(object("a"))], "full");
  const intruder = new DatabaseSync(`${home}/state.db`);
  intruder.exec("BEGIN IMMEDIATE");
  for (const durability of ["full", "quick"] as const) {
    expect(() => s.objects.write([put(object("b"))], durability)).toThrow(expect.objectContaining({ code: "unavailable" }));
  }
  expect(() => s.agents.setActive("uid-a", "x")).toThrow(expect.objectContaining({ code: "unavailable" }));
  intruder.exec("ROLLBACK");
  intruder.close();
  expect(s.objects.list().map((o) => o.metadata.name)).toEqual(["a"]);
  s.objects.write([put(object("b"))], "quick");
  expect(s.objects.version()).toBe(2);
});

const WRITER = `
import { openStore } from "${new URL("./store.ts", import.meta.url).pathname}";
import { newObject } from "${new URL("./object.ts", import.meta.url).pathname}";
const log = { debug() {}, info() {}, warn() {}, error() {} };
const store = openStore({ home: process.argv[2], clock: { now: Date.now, monotonic: () => performance.now() }, random: { uuid: () => crypto.randomUUID() }, log });
console.log("open");
for (let round = 1; ; round++) {
  const changes = Array.from({ length: 50 }, (_, i) => {
    const object = newObject({ kind: "Box", namespace: "default", name: "o" + i }, { spec: { round }, managedFields: [] }, { uid: "u" + i, now: 0 });
    return { type: "put", object: { ...object, metadata: { ...object.metadata, generation: round } }, revision: { manager: "m", fields: [] } };
  });
  store.objects.write(changes, round % 3 === 0 ? "quick" : "full");
  store.agents.setActive("u0", "c" + round);
  if (round === 3) console.log("writing");
}
`;

test("a writer that is killed leaves whole transactions only, and its lock dies with it", async () => {
  writeFileSync(`${home}/writer.mjs`, WRITER);
  for (const delay of [1, 7, 23]) {
    const child = spawn(process.execPath, [`${home}/writer.mjs`, home], { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise<void>((resolve) => child.stdout.on("data", (data: Buffer) => data.toString().includes("writing") && resolve()));
    await new Promise((resolve) => setTimeout(resolve, delay));
    expect(() => opened()).toThrow(expect.objectContaining({ code: "conflict", message: expect.stringContaining(String(child.pid)) }));
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    const s = opened();
    const rounds = new Set(s.objects.list("Box").map((o) => (o.spec as { round: number }).round));
    expect(rounds.size).toBe(1);
    expect(s.objects.list("Box")).toHaveLength(50);
    const [round] = rounds;
    expect([`c${round}`, `c${(round ?? 0) - 1}`]).toContain(s.agents.active("u0"));
    expect(s.records.revisions("u7").find((r) => r.revision === round)?.spec).toEqual({ round });
    s.close();
  }
});

test("a thousand objects go into one transaction", () => {
  const s = opened();
  const rows = s.objects.write(
    Array.from({ length: 1_000 }, (_, i) => ({ ...put(object(`o${i}`)), revision })),
    "full",
  );
  expect(rows).toHaveLength(1_000);
  expect(s.objects.version()).toBe(1_000);
});
