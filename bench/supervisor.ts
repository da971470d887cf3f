// Commands through the Sandbox port, without a gateway around it, against the engine's own exec of the same run, and what PID 1 costs.
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import Dockerode from "dockerode";
import { guestPath } from "../sandbox/guest.ts";
import { openGround, type Ground } from "../test/docker/ground.ts";
import { pause } from "../test/gateway.ts";
import { atEnd, ENGINE } from "./fleet.ts";
import { atLeast, interleaved, type Line, timed, within } from "./measure.ts";

const BYTES = 100 * 1024 * 1024;
const MIB = BYTES / 1024 / 1024;
const AT_ONCE = 32;
const SETTLE_MS = 25;
const COMMANDS = 640;
/** A program that is quick itself: a tiny shell's `head` takes longer for these bytes than all that carries them. */
const BLOCK = 65_536;
const BIG = ["dd", "if=/dev/zero", `bs=${BLOCK}`, `count=${BYTES / BLOCK}`, "status=none"];

interface Box {
  readonly ground: Ground;
  readonly id: string;
  readonly container: Dockerode.Container;
}

/** Starts it, reads it to the end and looks at its exit, as everybody has to. */
async function command({ ground, id }: Box, words: readonly string[], bytes: number): Promise<void> {
  const handle = await ground.sandbox.exec(id, { command: words, timeoutMs: 60_000 });
  await handle.end();
  let count = 0;
  for await (const { data, free } of handle.output) {
    count += data.length;
    free?.();
  }
  const exit = await handle.exit;
  if (exit.kind !== "code" || exit.code !== 0 || count !== bytes)
    throw new Error(`${words.join(" ")}: ${JSON.stringify(exit)}, ${count} bytes`);
}

async function bare({ container }: Box, words: readonly string[], bytes: number): Promise<void> {
  const exec = await container.exec({ Cmd: [...words], AttachStdout: true, AttachStderr: true });
  const stream = await exec.start({ hijack: true, stdin: false });
  let count = 0;
  stream.on("data", (data: Buffer) => (count += data.length));
  await new Promise((done, fail) => stream.once("end", done).once("error", fail));
  const { ExitCode } = await exec.inspect();
  // The engine's frames are among them.
  if (ExitCode !== 0 || count < bytes) throw new Error(`docker exec ${words.join(" ")}: ${ExitCode}, ${count} bytes`);
}

/** The engine goes on working for a moment after an exec: that is not the next turn's time. */
async function settled(run: () => Promise<unknown>): Promise<number> {
  await pause(SETTLE_MS);
  return timed(run);
}

async function short(box: Box): Promise<readonly Line[]> {
  const pair = await interleaved(
    { turns: 100, warmUp: 5 },
    () => settled(() => command(box, ["true"], 0)),
    () => settled(() => bare(box, ["true"], 0)),
  );
  const { value, floor, turns } = pair;
  const line = "supervisor: true";
  const note = `median of ${turns} turns; docker exec, read, inspect: ${floor.toFixed(1)} ms`;
  return [
    within({ line, unit: "ms", limit: 4, note }, value),
    atLeast({ line: `${line}, faster than docker exec`, unit: "x", limit: 20, note: "median of the ratios of neighbours" }, 1 / pair.ratio),
  ];
}

async function rate(box: Box): Promise<Line> {
  let next = 0;
  const one = async (): Promise<void> => {
    while (next++ < COMMANDS) await command(box, ["true"], 0);
  };
  const ms = await timed(() => Promise.all(Array.from({ length: AT_ONCE }, one)));
  return atLeast(
    { line: `supervisor: true, ${AT_ONCE} at once`, unit: "commands/s", limit: 300, note: `${COMMANDS} of them` },
    (COMMANDS / ms) * 1000,
  );
}

/** The supervisor's own connection goes past the engine, which copies every byte of the floor. */
async function big(box: Box): Promise<Line> {
  const pair = await interleaved(
    { turns: 15, warmUp: 2 },
    () => timed(() => command(box, BIG, BYTES)),
    () => timed(() => bare(box, BIG, BYTES)),
  );
  const [value, floor] = [(MIB / pair.value) * 1000, (MIB / pair.floor) * 1000];
  const note = `dd bs=${BLOCK}, read and let go as the exec tool does; floor: the same by docker exec; median of ${pair.turns} ratios`;
  const ratio = 1 / pair.ratio;
  return { line: `supervisor: ${MIB} MiB of output`, unit: "MiB/s", value, floor, ratio, limit: 3, least: true, met: ratio >= 3, note };
}

function cost({ id }: Box): readonly Line[] {
  const pid = execFileSync("docker", ["inspect", "-f", "{{.State.Pid}}", id], { encoding: "utf8" }).trim();
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return [
    within({ line: "supervisor: size of its program", unit: "KiB", limit: 100, note: "x64" }, statSync(guestPath()).size / 1024),
    within({ line: "supervisor: memory of PID 1", unit: "KiB", limit: 1024, note: "resident, after all of the above" }, rss),
  ];
}

export async function supervising(): Promise<readonly Line[]> {
  const ground = openGround();
  atEnd.push(() => ground.cleanup());
  const id = await ground.up({ memoryBytes: 512 << 20, cpus: 2, pids: 256 });
  const box: Box = { ground, id, container: new Dockerode({ socketPath: ENGINE }).getContainer(id) };
  return [...(await short(box)), await rate(box), await big(box), ...cost(box)];
}
