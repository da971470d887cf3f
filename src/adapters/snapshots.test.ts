import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { SnapshotPlace, Snapshots } from "../core/snapshot.ts";
import { systemClock } from "./clock.ts";
import { createSnapshots } from "./snapshots.ts";

let home = "";
let work = "";
let place: SnapshotPlace;
let snapshots: Snapshots;
const never = new AbortController().signal;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-snap-"));
  work = join(home, "agents/default.travel/workspace");
  mkdirSync(work, { recursive: true });
  place = { agent: { namespace: "default", name: "travel" }, workspace: work };
  snapshots = createSnapshots({ home, clock: systemClock });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const at = (name: string): string => join(work, name);
const take = (note = "") => snapshots.create(place, { note }, never);
const blobs = (): readonly string[] => readdirSync(join(home, "agents/default.travel/snapshots/blobs"));
const codeOf = (work_: Promise<unknown>): Promise<string> =>
  work_.then(
    () => "no error",
    (error: unknown) => (error as { code: string }).code,
  );

test("a restored workspace has the same files, folders, links and modes, and nothing else", async () => {
  mkdirSync(at("a/b"), { recursive: true });
  writeFileSync(at("a/b/script"), "#!/bin/sh\n");
  chmodSync(at("a/b/script"), 0o755);
  writeFileSync(at("empty"), "");
  symlinkSync("/etc/passwd", at("link"));
  symlinkSync("nowhere", at("dangling"));
  mkdirSync(at("locked"));
  writeFileSync(at("locked/inside"), "kept");
  chmodSync(at("locked"), 0o555);
  const odd = Buffer.concat([Buffer.from(`${work}/`), Buffer.from([0xff, 0x0a, 0x22, 0x5c])]);
  writeFileSync(odd, "odd");
  const old = new Date("2001-02-03T04:05:06Z");
  utimesSync(at("empty"), old, old);
  const made = await take("first");
  rmSync(at("a"), { recursive: true });
  rmSync(at("link"));
  symlinkSync("/", at("link"));
  writeFileSync(at("new"), "new");
  writeFileSync(at("empty"), "no longer");
  await snapshots.restore(place, made.id, never);
  expect(readdirSync(work).length).toBe(6);
  expect(readFileSync(at("a/b/script"), "utf8")).toBe("#!/bin/sh\n");
  expect(statSync(at("a/b/script")).mode & 0o777).toBe(0o755);
  expect(readlinkSync(at("link"))).toBe("/etc/passwd");
  expect(readlinkSync(at("dangling"))).toBe("nowhere");
  expect(statSync(at("locked")).mode & 0o777).toBe(0o555);
  expect(readFileSync(at("locked/inside"), "utf8")).toBe("kept");
  expect(readFileSync(odd, "utf8")).toBe("odd");
  expect([statSync(at("empty")).size, statSync(at("empty")).mtimeMs]).toStrictEqual([0, old.getTime()]);
  expect((await snapshots.diff(place, [made.id], never)).changes).toStrictEqual([]);
});

test("the second snapshot copies only what changed, whatever times a file claims, and shares the rest", async () => {
  writeFileSync(at("same"), Buffer.alloc(100_000, 1));
  writeFileSync(at("changes"), "aaaa");
  const first = await take();
  const stats = statSync(at("changes"));
  writeFileSync(at("changes"), "bbbb");
  utimesSync(at("changes"), stats.atime, stats.mtime);
  const second = await take();
  expect([first.copied, second.copied, second.bytes]).toStrictEqual([100_004, 4, 100_004]);
  expect(blobs()).toHaveLength(3);
  expect((await snapshots.diff(place, [first.id, second.id], never)).changes).toStrictEqual([{ path: "changes", change: "changed" }]);
  await snapshots.remove(place.agent, first.id);
  expect(blobs()).toHaveLength(2);
  rmSync(at("same"));
  await snapshots.restore(place, second.id, never);
  expect([statSync(at("same")).size, readFileSync(at("changes"), "utf8")]).toStrictEqual([100_000, "bbbb"]);
});

test("what the workspace's files become never reaches a snapshot", async () => {
  writeFileSync(at("file"), "before");
  const made = await take();
  appendFileSync(at("file"), " after");
  truncateSync(at("file"), 3);
  await snapshots.restore(place, made.id, never);
  appendFileSync(at("file"), " again");
  await snapshots.restore(place, made.id, never);
  expect(readFileSync(at("file"), "utf8")).toBe("before");
  const root = join(home, "agents/default.travel/snapshots");
  expect(statSync(root).mode & 0o777).toBe(0o700);
});

test("a diff names what was added, removed, changed and given another mode; a file that was only touched is the same", async () => {
  for (const name of ["gone", "edited", "mode", "touched"]) writeFileSync(at(name), "12345");
  mkdirSync(at("folder"));
  const made = await take();
  rmSync(at("gone"));
  writeFileSync(at("edited"), "54321");
  chmodSync(at("mode"), 0o600);
  utimesSync(at("touched"), 1, 1);
  writeFileSync(at("folder/new"), "");
  expect(await snapshots.diff(place, [made.id], never)).toStrictEqual({
    changes: [
      { path: "edited", change: "changed" },
      { path: "folder/new", change: "added" },
      { path: "gone", change: "removed" },
      { path: "mode", change: "mode" },
    ],
    more: 0,
  });
});

test("links lead nowhere: neither a snapshot nor a restore reads or writes outside the workspace", async () => {
  const outside = join(home, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "secret"), "secret");
  symlinkSync(outside, at("out"));
  mkdirSync(at("folder"));
  writeFileSync(at("folder/file"), "mine");
  const made = await take();
  expect([made.files, made.bytes]).toStrictEqual([1, 4]);
  rmSync(at("folder"), { recursive: true });
  symlinkSync(outside, at("folder"));
  await snapshots.restore(place, made.id, never);
  expect(readdirSync(outside)).toStrictEqual(["secret"]);
  expect(lstatSync(at("folder")).isDirectory()).toBe(true);
  const aside = `${work}-aside`;
  renameSync(work, aside);
  symlinkSync(outside, work);
  expect(await codeOf(take())).toBe("not_found");
  expect(await codeOf(snapshots.restore(place, made.id, never))).toBe("not_found");
  expect(readFileSync(join(outside, "secret"), "utf8")).toBe("secret");
});

test("a folder that turns into a link and back while it is copied never lets the outside in", async () => {
  const outside = join(home, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "SECRET");
  mkdirSync(at("race"));
  writeFileSync(at("race/file"), "mine__");
  const stop = new AbortController();
  const swapper = (async () => {
    while (!stop.signal.aborted) {
      try {
        renameSync(at("race"), at("aside"));
        symlinkSync(outside, at("race"));
      } catch {
        // The other half of the swap comes.
      }
      await new Promise(setImmediate);
      rmSync(at("race"), { force: true });
      try {
        renameSync(at("aside"), at("race"));
      } catch {
        // It is back already.
      }
      await new Promise(setImmediate);
    }
  })();
  for (let round = 0; round < 60; round++) {
    await take();
    for (const blob of blobs())
      expect(readFileSync(join(home, "agents/default.travel/snapshots/blobs", blob), "utf8")).not.toContain("SECRET");
    if (round % 20 === 19) for (const { id } of await snapshots.list(place.agent)) await snapshots.remove(place.agent, id);
  }
  stop.abort();
  await swapper;
});

test("pipes and sockets are counted and left out, and do not hold it up", async () => {
  execFileSync("mkfifo", [at("pipe")]);
  writeFileSync(at("file"), "x");
  expect(await take()).toMatchObject({ files: 1, skipped: 1 });
});

test("a file that claims more than may be taken is refused before anything is copied, and leaves nothing", async () => {
  writeFileSync(at("small"), "x");
  writeFileSync(at("huge"), "");
  truncateSync(at("huge"), 2 ** 40);
  expect(await codeOf(take())).toBe("exhausted");
  expect([await snapshots.list(place.agent), blobs()]).toStrictEqual([[], []]);
});

test("too deep a nesting, an unknown id and an id with a path in it are refused", async () => {
  let path = work;
  for (let i = 0; i < 210; i++) mkdirSync((path = `${path}/d`));
  expect(await codeOf(take())).toBe("exhausted");
  rmSync(at("d"), { recursive: true });
  for (const id of ["20200101T000000000-abcd", "../../../etc/passwd", ""]) {
    expect(await codeOf(snapshots.restore(place, id, never))).toBe("not_found");
    expect(await codeOf(snapshots.remove(place.agent, id))).toBe("not_found");
    expect(await codeOf(snapshots.diff(place, [id], never))).toBe("not_found");
  }
});

test("those that were made by themselves go when there are too many; a person's stay", async () => {
  const few = createSnapshots({ home, clock: systemClock, limits: { ownMax: 2, countMax: 5 } });
  const mine = await few.create(place, {}, never);
  for (let i = 0; i < 4; i++) await few.create(place, { cause: "session" }, never);
  const left = await few.list(place.agent);
  expect(left.map(({ cause }) => cause)).toStrictEqual(["person", "session", "session"]);
  expect(left[0]?.id).toBe(mine.id);
  await few.create(place, {}, never);
  await few.create(place, {}, never);
  expect(await codeOf(few.create(place, {}, never))).toBe("exhausted");
});
