// Limits for all processes of a bwrap sandbox together, by a control group of its own: as root, and in a group that was delegated.
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openGroups, realFiles, thisProcess } from "../../sandbox/bwrap/group.ts";
import { parentsOf, placesOf } from "../../sandbox/bwrap/tree.ts";
import { systemClock } from "../../src/adapters/clock.ts";
import { groupsOf, openBwrapGround, type BwrapGround } from "./bwrapground.ts";

let ground: BwrapGround;
beforeAll(() => void (ground = openBwrapGround()));
afterAll(() => ground.cleanup());
const said = async (id: string, script: string): Promise<string> => (await ground.run(id, script)).stdout.toString().trim();
/** Takes 40 MB and holds it for a while. */
const TAKE = "head -c 40000000 /dev/zero | sort -z -S 60M | sleep 1";

test("memory is limited for all processes together, and a command that is killed for it says so", async () => {
  const id = await ground.up({ memoryBytes: 100 << 20 });
  expect((await ground.run(id, "dd if=/dev/zero of=/dev/null bs=80M count=1")).exit).toStrictEqual({ kind: "code", code: 0 });
  const one = "dd if=/dev/zero of=/dev/null bs=60M count=60 2>/dev/null";
  expect((await ground.run(id, `${one} & ${one} & ${one} & wait -n; wait -n; wait -n`)).exit).not.toStrictEqual({ kind: "code", code: 0 });
  expect((await ground.run(id, "exec dd if=/dev/zero of=/dev/null bs=300M count=1")).exit).toStrictEqual({ kind: "oom" });
  expect(await said(id, "echo alive")).toBe("alive");
  // What it writes to /tmp counts as well.
  expect((await ground.run(id, `head -c 12000000 /dev/zero >/tmp/x; ${TAKE}; rm /tmp/x`)).exit.kind).toBe("code");
});

test("processor time is limited for all processes together, and changes while it runs", async () => {
  const id = await ground.up({ cpus: 0.2 });
  const load = "for i in 1 2 3; do timeout 1.5 sh -c 'while :; do :; done' & done; wait; cat /proc/self/stat | cut -d' ' -f16,17";
  const used = async (): Promise<number> => {
    const begin = Date.now();
    const [user = 0, system = 0] = (await said(id, `sh -c "${load}; times" | tail -n 1 | tr -c '0-9.\\n' ' '`))
      .split(/\s+/)
      .reduce<number[]>((sum, word, i) => ((sum[i >> 1] = (sum[i >> 1] ?? 0) * 60 + Number(word)), sum), []);
    return ((user + system) * 1000) / (Date.now() - begin);
  };
  const limited = await used();
  await ground.sandbox.update(id, { memoryBytes: 128 << 20, cpus: 2, pids: 128 });
  const free = await used();
  expect(limited).toBeLessThan(0.35);
  expect(free).toBeGreaterThan(limited);
});

test("exactly so many processes and threads are possible as the manifest says", async () => {
  const id = await ground.up({ pids: 20 });
  const count = "(i=0; while [ $i -lt 60 ]; do sleep 3 & i=$((i+1)); done) 2>/dev/null; set -- /proc/[0-9]*; echo $#";
  // With the one that made them, which has ended.
  expect(await said(id, count)).toBe("19");
  expect(ground.sandbox.lacks?.(id)).toStrictEqual([]);
  expect((await ground.sandbox.checks?.(id))?.filter(({ state }) => state !== "ok")).toStrictEqual([]);
});

test("the group goes with its sandbox: at a stop, at its removal by the next gateway, and by a sweep where both died", async () => {
  const id = await ground.up();
  expect(groupsOf(id).length).toBeGreaterThan(0);
  await ground.sandbox.stop(id, 1000);
  expect(groupsOf(id)).toStrictEqual([]);
  await ground.sandbox.start(id);
  const groups = groupsOf(id);
  await ground.open().remove(id);
  expect(groupsOf(id)).toStrictEqual([]);
  for (const path of groups) mkdirSync(path, { recursive: true });
  const other = await ground.up();
  const stop = new AbortController();
  const watching = ground.open().watch({ hint: () => undefined, relist: () => undefined, down: () => undefined }, stop.signal);
  await expect.poll(() => groupsOf(id)).toStrictEqual([]);
  expect(groupsOf(other).length).toBeGreaterThan(0);
  stop.abort();
  await watching;
});

test("an end for want of memory is told as such", async () => {
  const id = await ground.up();
  expect((await ground.sandbox.inspect(id))?.oomKilled).toBe(false);
  await ground.run(id, "exec dd if=/dev/zero of=/dev/null bs=300M count=1");
  const { run } = JSON.parse(realFiles.read(join(ground.folder, "bwrap", id, "record.json"))) as { run: { pid: number } };
  process.kill(run.pid, "SIGKILL");
  await expect.poll(async () => (await ground.sandbox.inspect(id))?.oomKilled).toBe(true);
  await ground.sandbox.start(id);
  expect((await ground.sandbox.inspect(id))?.oomKilled).toBe(false);
});

test("a gateway that is not root has it in the groups that were delegated to it, and only there", async () => {
  const user = 20_781;
  const tops = placesOf(realFiles, thisProcess());
  const delegated = tops.map(({ parent }) => join(dirname(parent), `beige-delegated-${process.pid}`));
  const program = `
    import { openBwrapGround } from ${JSON.stringify(new URL("bwrapground.ts", import.meta.url).href)};
    const ground = openBwrapGround();
    const id = await ground.up({ pids: 20 });
    const end = await ground.run(id, "exec dd if=/dev/zero of=/dev/null bs=300M count=1");
    console.log(JSON.stringify({ end: end.exit.kind, lacks: ground.sandbox.lacks(id) }));
    await ground.cleanup();
    process.exit(0);
  `;
  const as = ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", process.execPath, "--input-type=module", "-e", program];
  const ran = (doors: readonly string[]) => {
    const join2 = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit 9; shift; done; shift; exec "$@"';
    const { stdout, stderr } = spawnSync("sh", ["-c", join2, "sh", ...doors, "--", ...as], { encoding: "utf8", cwd: "/" });
    return JSON.parse(stdout || JSON.stringify(stderr)) as unknown;
  };
  try {
    for (const path of delegated) {
      mkdirSync(path);
      chmodSync(path, 0o755);
      for (const name of ["", "cgroup.procs", "cgroup.subtree_control"])
        if (existsSync(join(path, name))) chownSync(join(path, name), user, user);
    }
    expect(ran(delegated.map((path) => join(path, "cgroup.procs")))).toStrictEqual({ end: "oom", lacks: [] });
    expect(ran([])).toMatchObject({ lacks: ["processor limit", "memory limit for a whole sandbox"] });
  } finally {
    for (const path of delegated) {
      for (const name of realFiles.list(path)) rmdirSync(join(path, name));
      rmdirSync(path);
    }
  }
});

test("where a group cannot be entered, nothing starts without its limits", async () => {
  const real = openGroups({ home: ground.folder, clock: systemClock });
  const shut = join(ground.folder, "shut");
  writeFileSync(shut, "");
  const place = openBwrapGround({
    groups: { ...real, make: async (id, limits) => ({ holds: [], ...(await real.make(id, limits)), doors: [join(shut, "cgroup.procs")] }) },
  });
  await expect(place.up()).rejects.toMatchObject({ code: "unavailable" });
  expect(parentsOf(thisProcess()).flatMap((parent) => realFiles.list(parent).filter((name) => name.startsWith("x")))).toStrictEqual([]);
  await place.cleanup();
});
