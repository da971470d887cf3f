// What a hostile command in a sandbox tries, and must not get, on every backend. `npm run test:escape` prints the table.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SECCOMP } from "../../sandbox/docker/seccomp.ts";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import { finish } from "../contract/sandbox.ts";
import { openBwrapGround, unpackImage } from "./bwrapground.ts";
import { ATTEMPTS, BACKENDS, RUNSC_LETS, type Backend } from "./escape/attempts.ts";
import { OPEN, SHUT } from "./escape/open.ts";
import { openTown, type Town } from "./escape/town.ts";
import { openHost, type Host } from "./escape/host.ts";
import { tableOf, type Row } from "./escape/table.ts";
import { openGround, SOCKET, type Place } from "./ground.ts";

const rows: Row[] = [];
const filtered = new Set((JSON.parse(SECCOMP) as { syscalls: { names: string[] }[] }).syscalls.flatMap(({ names }) => names));
const errors = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]));
let host: Host;
let built: string;

beforeAll(async () => {
  built = mkdtempSync(join(tmpdir(), "beige-probe-"));
  const source = new URL("probe.c", import.meta.url).pathname;
  const gcc = spawnSync("musl-gcc", ["-static", "-o", join(built, "probe"), source], { encoding: "utf8" });
  expect(gcc.error?.message ?? gcc.stderr).toBe("");
  chmodSync(join(built, "probe"), 0o755);
  await openGround().cleanup();
  host = await openHost();
});
afterAll(() => {
  host?.close();
  rmSync(built, { recursive: true, force: true });
  const absent = gvisor === undefined ? ["runsc: this engine has no such runtime; nothing was tried on it"] : [];
  const table = tableOf(rows, absent);
  console.log(process.env["BEIGE_TABLE"] === undefined ? table.split("\n").at(-1) : table);
});

/** Of an engine that has gVisor's runtime: this machine's, or the one that is named. */
const gvisor = [process.env["BEIGE_RUNSC_ENGINE"] ?? "", SOCKET].find((socket) => {
  const asked =
    socket === "" ? undefined : spawnSync("docker", ["-H", `unix://${socket}`, "info", "-f", "{{json .Runtimes}}"], { encoding: "utf8" });
  return asked?.stdout.includes('"runsc"') === true;
});
const SPECS: Readonly<Record<Backend, Partial<SandboxSpec>>> = {
  strict: {},
  packages: { profile: "packages" },
  bwrap: { image: "tiny" },
  // The kernel of its own needs some of it for itself.
  runsc: { runtime: "runsc", memoryBytes: 512 << 20 },
  open: { network: "open" },
};

function open(backend: Backend): Place {
  if (backend !== "bwrap") return openGround(backend === "runsc" ? gvisor : undefined);
  const place = openBwrapGround();
  unpackImage(place.folder, "tiny");
  return place;
}

/** What stopped a system call of the probe, by its name, its error and what it was for. */
function stopper(call: string, what: string, error: string): string {
  if (["int80", "x32"].includes(call) || !filtered.has(call)) return "system call filter";
  if (["socket", "clone", "personality"].includes(call) || error === "ENOSYS") return "system call filter";
  if (/PID 1|keeper/.test(what)) return "not dumpable";
  if (call === "ioctl") return "no terminal";
  return "no capability";
}

describe("a hostile agent at its gateway", () => {
  let town: Town;
  beforeAll(async () => {
    town = await openTown(join(built, "probe"), host);
  });
  afterAll(() => town?.close());
  for (const backend of BACKENDS) {
    const record = (row: Omit<Row, "backend">): void => void rows.push({ ...row, backend });
    test(`${backend}: hostile frames and another's name are worth nothing`, () => town.frames(backend, record));
    test(`${backend}: no way out leads around the proxy`, () => town.egress(backend, record));
  }
});

for (const backend of BACKENDS)
  describe(`a hostile command on ${backend}`, () => {
    let place: Place;
    let id: string;
    const record = (row: Omit<Row, "backend">): void => void rows.push({ ...row, backend });
    const said = async (script: string, timeoutMs = 20_000): Promise<string> =>
      (await place.run(id, script, { timeoutMs })).stdout.toString().trim();
    beforeAll(async () => {
      place = open(backend);
      spawnSync("cp", [join(built, "probe"), join(place.folder, "bin/probe")]);
      id = await place.up(SPECS[backend]);
    });
    afterAll(() => place?.cleanup());

    for (const { what, script, says, layer } of ATTEMPTS.filter(({ allowed }) => allowed?.includes(backend) !== true))
      test(`cannot ${what}`, async () => {
        const text = await said(`{ ${host.fill(script)}; } >/tmp/out 2>&1 && echo GOT || echo refused; head -c 2000 /tmp/out`);
        const got = !text.startsWith("refused");
        const reason = text.split("\n").slice(1).join("\n");
        const by = typeof layer === "string" ? layer : (layer[backend] ?? "");
        const refusal = /[^:]*$/.exec(reason)?.[0].trim().split("\n").at(-1)?.slice(0, 30) || "refused";
        record({ what, outcome: got ? "GOT THROUGH" : refusal, layer: by, escaped: got });
        expect([got, reason]).toStrictEqual([false, expect.stringMatching(says)]);
        expect((await place.sandbox.inspect(id))?.state).toBe("running");
        expect(host.visits()).toBe(0);
      });

    test("cannot by any system call get what it must not have", async () => {
      const lines = (await said("/tools/bin/probe </dev/null")).split("\n");
      expect([lines.at(-1), lines.length > 70]).toStrictEqual(["end", true]);
      const wrong: string[] = [];
      for (const line of lines.slice(0, -1)) {
        const [what = "", call = "", end = ""] = line.split("\t");
        const byDesign = backend === "packages" && /^(user|group) 0$/.test(what);
        const error = errors.get(Number(end)) ?? end;
        const layer = stopper(call, what, error);
        const escaped = end === "GOT" && !byDesign;
        if (!byDesign) record({ what, outcome: escaped ? "GOT THROUGH" : error, layer, escaped });
        const unsure = layer === "system call filter" && !["EPERM", "ENOSYS"].includes(error);
        if (escaped || (unsure && !byDesign)) wrong.push(`${line} (${error})`);
      }
      expect(wrong).toStrictEqual([]);
    });

    test("has no capability, no way to one, and a filter", async () => {
      const text = await said("grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t '");
      const set = backend === "packages" ? "00000000000000cb" : "0".repeat(16);
      const amb = `CapAmb:${"0".repeat(16)}`;
      expect(text.split("\n")).toStrictEqual([`CapPrm:${set}`, `CapEff:${set}`, `CapBnd:${set}`, amb, "NoNewPrivs:1", "Seccomp:2"]);
    });

    test("fills /tmp and /dev/shm only up to their size, finds them neither setuid nor with devices", async () => {
      const text = await said(
        "for d in /tmp /dev/shm; do dd if=/dev/zero of=$d/fill bs=1M count=100 2>/dev/null; wc -c <$d/fill; rm $d/fill; done; grep ' /tmp ' /proc/mounts",
      );
      const [tmp, shm] = text.split("\n", 2).map(Number);
      record({ what: "fill /tmp", outcome: `${(tmp ?? 0) >> 20} MiB`, layer: "size of the mount", escaped: (tmp ?? Infinity) > 16 << 20 });
      record({
        what: "fill /dev/shm",
        outcome: `${(shm ?? 0) >> 20} MiB`,
        layer: "size of the mount",
        escaped: (shm ?? Infinity) > 64 << 20,
      });
      expect(tmp).toBeLessThanOrEqual(16 << 20);
      expect(shm).toBeLessThanOrEqual(64 << 20);
      expect(text).toMatch(/nosuid.*nodev|nodev.*nosuid/);
    });

    // An engine on version 1 of control groups leaves that folder open to a root inside: it is memory, and counts as such.
    if (backend === "packages")
      test("fills no memory of the host by the folder of control groups", async () => {
        // In a sandbox of its own: what it holds then is gone with it.
        const own = await place.up({ profile: "packages" });
        const { exit } = await place.run(own, "dd if=/dev/zero of=/sys/fs/cgroup/fill bs=1M count=300");
        await place.sandbox.remove(own);
        const escaped = exit.kind === "code" && exit.code === 0;
        record({ what: "fill the folder of control groups", outcome: exit.kind, layer: "memory limit of its group", escaped });
        expect(escaped).toBe(false);
      });

    test("makes only so many processes, and a bomb of them ends with its command", async () => {
      const count = Number(
        await said("(i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); done) 2>/dev/null; set -- /proc/[0-9]*; echo $#"),
      );
      expect([count > 100, count <= 129]).toStrictEqual([true, true]);
      const bomb = await place.run(id, "b() { b | b & b; }; b", { timeoutMs: 1500 });
      const after = await said("ls -d /proc/[0-9]* | wc -l");
      const layer = "process limit of its group";
      record({ what: "fork bomb", outcome: `at most ${count}, ${after} after`, layer, escaped: count > 129 || Number(after) > 8 });
      expect(bomb.exit.kind).not.toBe("lost");
      expect(Number(after)).toBeLessThanOrEqual(8);
    });

    test("takes only so much memory", async () => {
      const end = await place.run(id, "dd if=/dev/zero of=/dev/null bs=300M count=1");
      const outcome = end.exit.kind === "code" ? "no memory" : end.exit.kind;
      const layer = "memory limit of its group";
      record({ what: "memory bomb", outcome, layer, escaped: end.exit.kind === "code" && end.exit.code === 0 });
      expect(end.exit).not.toStrictEqual({ kind: "code", code: 0 });
      expect(await said("echo alive")).toBe("alive");
    });

    test("forged frames on its standard output stay output", async () => {
      const end = await place.run(id, `printf '\\3\\0\\0\\0\\30{"kind":"code","code":0}'; printf '\\1\\0\\0\\0\\0\\0\\0\\1x'; exit 9`);
      record({
        what: "forge frames on its own output",
        outcome: "stayed output",
        layer: "frames are the keeper's",
        escaped: end.exit.kind !== "code",
      });
      expect([end.exit, end.stdout.length]).toStrictEqual([{ kind: "code", code: 9 }, 38]);
    });

    test("leads no read and no write of ours out of the workspace, by a link or by a race", async () => {
      const target = mkdtempSync(join(tmpdir(), "beige-target-"));
      writeFileSync(join(target, "secret"), "secret of the host");
      chmodSync(target, 0o777);
      try {
        const flip = `while :; do ln -sfn ${target} /workspace/way; rm -rf /workspace/way; mkdir /workspace/way; mv /workspace/way /workspace/w; rm -rf /workspace/w; done`;
        const race = await place.sandbox.exec(id, { command: ["sh", "-c", flip], timeoutMs: 30_000 });
        const ended = finish(race);
        let read = "";
        for (let i = 0; i < 150; i++) {
          const at = ["/beige/tool-client", i % 2 === 0 ? "cat" : "put", `/workspace/way/${i % 2 === 0 ? "secret" : `planted${i}`}`];
          const end = await finish(await place.sandbox.exec(id, { command: at, timeoutMs: 5000 }), Buffer.from("planted"));
          read += end.stdout.toString();
        }
        race.kill();
        await ended;
        await said(`rm -rf /workspace/way; ln -s ${target} /workspace/way; ln -s /etc/shadow /workspace/shadow`);
        read += await said("/beige/tool-client cat /workspace/way/secret; /beige/tool-client cat /workspace/shadow");
        const planted = readdirSync(target).length !== 1;
        record({
          what: "links and races on the workspace",
          outcome: "nothing read, nothing written",
          layer: "we work inside as its user",
          escaped: planted || /secret|root:[$]/.test(read),
        });
        expect([planted, read.includes("secret of the host"), /root:[$]/.test(read)]).toStrictEqual([false, false, false]);
      } finally {
        rmSync(target, { recursive: true, force: true });
        await said("rm -f /workspace/way /workspace/shadow");
      }
      expect(existsSync(target)).toBe(false);
    });
  });

describe("a hostile command with the network open", () => {
  let place: Place;
  let id: string;
  beforeAll(async () => {
    place = open("open");
    spawnSync("cp", [join(built, "probe"), join(place.folder, "bin/probe")]);
    id = await place.up(SPECS.open);
  });
  afterAll(() => place?.cleanup());
  const run = async (script: string): Promise<string> => (await place.run(id, host.fill(script))).stdout.toString();

  // By the nature of `open`: it is the engine's bridge, and the engine lets it through.
  for (const { what, script, reached } of OPEN)
    test(`open is open: ${what}`, async () => {
      const got = reached.test(await run(`{ ${script}; } 2>&1`));
      rows.push({
        what,
        backend: "open",
        outcome: got ? "reached" : "not reached here",
        layer: got ? "nothing: it is open" : "this host",
        escaped: false,
      });
      expect(typeof got).toBe("boolean");
    });

  for (const { what, script, layer } of SHUT)
    test(`even so it cannot ${what}`, async () => {
      const before = host.visits();
      const text = await run(`{ ${script}; } >/tmp/out 2>&1 && echo GOT || echo refused; cat /tmp/out`);
      const got = host.visits() !== before || text.includes("a port of the host");
      rows.push({ what, backend: "open", outcome: got ? "GOT THROUGH" : "refused", layer, escaped: got });
      expect([what, got]).toStrictEqual([what, false]);
    });
});

if (gvisor !== undefined)
  describe("a hostile command on runsc", () => {
    let place: Place;
    let id: string;
    const record = (row: Omit<Row, "backend">): void => void rows.push({ ...row, backend: "runsc" });
    const fresh = async (): Promise<string> => {
      id = await place.up(SPECS.runsc);
      return id;
    };
    /** In another one where the attempt before has ended it: that is seen a moment later. */
    const run = async (script: string, timeoutMs = 20_000) => {
      const again = async () => place.run(await fresh(), script, { timeoutMs });
      return place.run(id, script, { timeoutMs }).catch(again);
    };
    const isUp = async (): Promise<boolean> => (await place.sandbox.inspect(id))?.state === "running";
    beforeAll(async () => {
      place = open("runsc");
      spawnSync("cp", [join(built, "probe"), join(place.folder, "bin/probe")]);
      await fresh();
    });
    afterAll(() => place?.cleanup());

    // Another kernel refuses in other words; some attempts end the whole sandbox, which is no way out of it.
    for (const { what, script } of ATTEMPTS)
      test(`cannot ${what}`, async () => {
        const before = host.visits();
        const end = await run(`{ ${host.fill(script)}; } >/tmp/out 2>&1 && echo GOT || echo refused`);
        const lives = await isUp();
        const got = end.stdout.toString().startsWith("GOT");
        const harmless = RUNSC_LETS[what];
        const outcome = got ? (harmless === undefined ? "GOT THROUGH" : "possible") : lives ? "refused" : "the sandbox ended";
        record({ what, outcome, layer: got ? (harmless ?? "") : "kernel of its own (gVisor)", escaped: got && harmless === undefined });
        if (!lives) await fresh();
        expect([what, got && harmless === undefined, host.visits() - before]).toStrictEqual([what, false, 0]);
      });

    test("takes only so much memory, and no more processes than it may", async () => {
      for (const [what, script] of [
        ["memory bomb", "dd if=/dev/zero of=/dev/null bs=900M count=1"],
        ["fork bomb", "b() { b | b & b; }; b"],
      ] as const) {
        const { exit } = await run(script, 3000);
        const lives = await isUp();
        record({
          what,
          outcome: lives ? exit.kind : "the sandbox ended",
          layer: "limits of its group",
          escaped: exit.kind === "code" && exit.code === 0,
        });
        expect([what, exit]).not.toStrictEqual([what, { kind: "code", code: 0 }]);
        if (!lives) await fresh();
        expect((await run("echo alive")).stdout.toString()).toBe("alive\n");
      }
    });

    test("forged frames on its standard output stay output", async () => {
      const end = await run(`printf '\\3\\0\\0\\0\\30{"kind":"code","code":0}'; exit 9`);
      record({
        what: "forge frames on its own output",
        outcome: "stayed output",
        layer: "frames are the keeper's",
        escaped: end.exit.kind !== "code",
      });
      expect(end.exit).toStrictEqual({ kind: "code", code: 9 });
    });
  });
