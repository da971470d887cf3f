// Version 2 of control groups against a tree that keeps the kernel's rules; version 1 is tested on the real one, in test/docker.
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../src/adapters/clock.ts";
import { openGroups } from "./group.ts";
import { parentsOf, placesOf, type GroupFiles, type Self } from "./tree.ts";

const TOP = "/sys/fs/cgroup";
const error = (code: string): Error => Object.assign(new Error(code), { code });

interface Kernel extends GroupFiles {
  readonly folders: Map<string, { on: string[]; pids: number[]; set: Map<string, string> }>;
}

/** A tree of version 2: no group but the top has processes and inner limits; a limit is there where the group above lets it be. */
function kernel(writable: string, processes: Readonly<Record<string, readonly number[]>>, bare = false): Kernel {
  const folders: Kernel["folders"] = new Map();
  const fresh = (pids: readonly number[] = []) => ({ on: [] as string[], pids: [...pids], set: new Map<string, string>() });
  for (const [path, pids] of Object.entries(processes)) folders.set(path, fresh(pids));
  if (!bare) for (const [path, one] of folders) if (path !== writable) one.on.push("memory", "cpu", "pids");
  const controllers = (path: string): readonly string[] =>
    path === TOP ? ["cpuset", "cpu", "io", "memory", "pids"] : (folders.get(dirname(path))?.on ?? []);
  const own = (path: string): void => {
    if (path !== writable && !path.startsWith(`${writable}/`)) throw error("EACCES");
  };
  return {
    folders,
    read(path) {
      const one = folders.get(dirname(path));
      if (path.endsWith("/cgroup.controllers")) return one === undefined ? "" : `${controllers(dirname(path)).join(" ")}\n`;
      if (path.endsWith("/cgroup.subtree_control")) return `${one?.on.join(" ") ?? ""}\n`;
      if (path.endsWith("/cgroup.procs")) return one?.pids.map((pid) => `${pid}\n`).join("") ?? "";
      return one?.set.get(path.slice(dirname(path).length + 1)) ?? "";
    },
    write(path, text) {
      own(path);
      const folder = dirname(path);
      const name = path.slice(folder.length + 1);
      const one = folders.get(folder);
      if (one === undefined) throw error("ENOENT");
      if (name === "cgroup.procs") {
        for (const other of folders.values()) other.pids = other.pids.filter((pid) => pid !== Number(text));
        if (one.on.length > 0 && folder !== TOP) throw error("EBUSY");
        one.pids.push(Number(text));
      } else if (name === "cgroup.subtree_control") {
        const words = text.split(" ").map((word) => word.slice(1));
        if (!words.every((word) => controllers(folder).includes(word))) throw error("ENOENT");
        if (one.pids.length > 0 && (bare || folder !== TOP)) throw error("EBUSY");
        one.on.push(...words);
      } else {
        if (!controllers(folder).includes(name.split(".")[0] ?? "")) throw error("ENOENT");
        one.set.set(name, text);
      }
    },
    mkdir(path) {
      if (folders.has(path)) return;
      own(path);
      if (!folders.has(dirname(path))) throw error("ENOENT");
      folders.set(path, fresh());
    },
    rmdir(path) {
      const one = folders.get(path);
      if (one === undefined) throw error("ENOENT");
      if (one.pids.length > 0 || [...folders.keys()].some((other) => other.startsWith(`${path}/`))) throw error("EBUSY");
      folders.delete(path);
    },
    list: (path) => [...folders.keys()].flatMap((one) => (dirname(one) === path ? [one.slice(path.length + 1)] : [])),
  };
}

const MOUNT = `30 23 0:26 / ${TOP} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n`;
const self = (root: boolean, own: string, parents: Readonly<Record<number, number>> = {}): Self => ({
  pid: 100,
  root,
  mounts: MOUNT,
  groups: `0::${own}\n`,
  parentOf: (pid) => parents[pid] ?? 1,
});
const LIMITS = { memoryBytes: 1 << 30, cpus: 1.5, pids: 64 };
const ALL = ["memory", "cpu", "pids"];

test("as root at the top: a group for each sandbox with its limits, and nobody is moved", async () => {
  const files = kernel(TOP, { [TOP]: [1, 2], [`${TOP}/system.slice`]: [], [`${TOP}/system.slice/x`]: [100, 7] });
  const groups = openGroups({ home: "/h", clock: systemClock, files, self: () => self(true, "/system.slice/x") });
  expect(groups.holds()).toStrictEqual(ALL);
  const group = await groups.make("bwrap-1", LIMITS);
  const path = group?.doors[0]?.replace("/cgroup.procs", "") ?? "";
  expect([dirname(path), group?.holds, group?.kills?.target]).toStrictEqual([`${TOP}/beige`, ALL, "/sys/fs/cgroup/memory.events"]);
  expect(Object.fromEntries(files.folders.get(path)?.set ?? [])).toStrictEqual({
    "memory.max": String(1 << 30),
    "memory.swap.max": "0",
    "cpu.max": "150000 100000",
    "pids.max": "65",
  });
  expect(files.folders.get(`${TOP}/system.slice/x`)?.pids).toStrictEqual([100, 7]);
  files.folders.get(path)?.set.set("memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
  expect(groups.kills("bwrap-1")).toBe(3);
  expect(groups.change("bwrap-1", { ...LIMITS, cpus: 0.5 })).toStrictEqual(ALL);
  expect(files.folders.get(path)?.set.get("cpu.max")).toBe("50000 100000");
  await groups.remove("bwrap-1");
  expect(files.folders.has(path)).toBe(false);
});

test("without root in a delegated group: the gateway and what it started step aside, once", async () => {
  const own = `${TOP}/user.slice/beige.service`;
  const files = kernel(own, { [TOP]: [1], [`${TOP}/user.slice`]: [], [own]: [100, 101] });
  const before = self(false, "/user.slice/beige.service", { 101: 100 });
  const groups = openGroups({ home: "/h", clock: systemClock, files, self: () => before });
  expect((await groups.make("bwrap-1", LIMITS))?.holds).toStrictEqual(ALL);
  expect([files.folders.get(own)?.pids, files.folders.get(`${own}/beige-gateway`)?.pids]).toStrictEqual([[], [100, 101]]);
  // The next gateway is started where this one is, or by the service manager in the group itself, which is in its way again.
  expect(placesOf(files, self(false, "/user.slice/beige.service/beige-gateway"))[0]?.parent).toBe(`${own}/beige`);
  expect(parentsOf(self(false, "/user.slice/beige.service/beige-gateway"))).toStrictEqual([`${own}/beige`]);
});

test("in a container that shares its group with others nobody is moved, and there are no limits", () => {
  const files = kernel(TOP, { [TOP]: [100, 50] }, true);
  expect(placesOf(files, self(true, "/"))).toStrictEqual([]);
  expect(files.folders.get(TOP)?.pids).toStrictEqual([100, 50]);
});

test("where nothing was delegated there are no limits, and nothing is left behind", async () => {
  const own = `${TOP}/user.slice`;
  const files = kernel("/nowhere", { [TOP]: [1], [own]: [100] });
  const groups = openGroups({ home: "/h", clock: systemClock, files, self: () => self(false, "/user.slice") });
  expect([groups.holds(), await groups.make("bwrap-1", LIMITS)]).toStrictEqual([[], undefined]);
  expect([...files.folders.keys()]).toStrictEqual([TOP, own]);
});

test("a sweep takes empty groups of this home that no sandbox has, and no others", async () => {
  const files = kernel(TOP, { [TOP]: [1] });
  const open = (home: string) => openGroups({ home, clock: systemClock, files, self: () => self(true, "/") });
  const [mine, theirs] = [open("/h"), open("/other")];
  for (const id of ["bwrap-1", "bwrap-2", "bwrap-3"]) await mine.make(id, LIMITS);
  await theirs.make("bwrap-4", LIMITS);
  const two = files.list(`${TOP}/beige`).find((name) => name.endsWith("bwrap-2")) ?? "";
  files.folders.get(`${TOP}/beige/${two}`)?.pids.push(9);
  mine.sweep(new Set(["bwrap-1"]));
  expect(files.list(`${TOP}/beige`).map((name) => name.split(".")[1])).toStrictEqual(["bwrap-1", "bwrap-2", "bwrap-4"]);
});
