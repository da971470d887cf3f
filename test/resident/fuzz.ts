// Fuzzers of both sides of the supervisor's protocol: recorded streams, bent, until the time is over.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../src/adapters/clock.ts";
import { BeigeError } from "../../src/core/errors.ts";
import { createReader, OUT_MAX } from "../../sandbox/resident/frames.ts";
import type { Carrier } from "../../sandbox/resident/greet.ts";
import { createResident } from "../../sandbox/resident.ts";
import { cutUp, dice, framesOf, mend, mutate, type Dice } from "./mutate.ts";
import { openRig, residentOf, whole, type Rig } from "./rig.ts";

export const corpus = new URL("../corpus/", import.meta.url).pathname;
/** So many streams go to one supervisor before a new one takes its place. */
const LIFE = 40;
/** Past its limit of 3 s, and the supervisor's own lateness, a command has ended within this on a busy machine too. */
const LATE_MS = 30_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

export interface Fuzzed {
  readonly streams: number;
  /** What went wrong, and the stream that did it. */
  readonly failure?: { readonly why: string; readonly stream: Buffer; readonly seed: number };
}

const recordings = (side: "supervisor" | "gateway"): readonly Buffer[][] =>
  readdirSync(join(corpus, side))
    .toSorted()
    .map((name) => framesOf(readFileSync(join(corpus, side, name))));

/** A folder with the only programs that a bent command can find. */
function harmless(): string {
  const folder = mkdtempSync(join(tmpdir(), "beige-fuzz-"));
  for (const name of ["true", "cat", "echo", "sleep"]) symlinkSync(`/bin/${name}`, join(folder, name));
  return folder;
}

/** Whether it still does its work: a command of a newer gateway, or the word that an even newer one was heard. */
async function works(rig: Rig, epoch: number): Promise<string | undefined> {
  if (rig.child.exitCode !== null || rig.child.signalCode !== null) return `it ended: ${rig.child.exitCode ?? rig.child.signalCode}`;
  const on = residentOf(rig, { epoch });
  try {
    const done = await whole(await on.exec("box", { command: ["echo", "well"], cwd: "/", timeoutMs: 5000 }));
    return done.stdout.toString() === "well\n"
      ? undefined
      : `echo said ${JSON.stringify(done.stdout.toString())}, ${JSON.stringify(done.exit)}`;
  } catch (error) {
    return String(error).includes("a newer gateway has it") ? undefined : String(error);
  } finally {
    on.close();
  }
}

/** Streams to PID 1: whatever comes, it lives, reads nothing that is not its own, and does what the next gateway asks. */
export async function fuzzSupervisor(binary: string, seconds: number, seed: number): Promise<Fuzzed> {
  const recorded = recordings("supervisor");
  const path = harmless();
  const until = performance.now() + seconds * 1000;
  let rig: Rig | undefined;
  let streams = 0;
  try {
    for (; performance.now() < until; streams++) {
      const roll = dice(seed + streams);
      rig ??= openRig(binary, { PATH: path, ASAN_OPTIONS: "detect_leaks=0:abort_on_error=1" });
      const frames = recorded[roll(recorded.length)] ?? [];
      const stream = streams < recorded.length ? Buffer.concat(recorded[streams] ?? []) : mutate(frames, roll, "all");
      for (const part of cutUp(stream, roll)) rig.inject(part);
      const last = (streams + 1) % LIFE === 0;
      const wrong = last || streams < recorded.length || roll(8) === 0 ? await works(rig, 2 ** 40 + streams) : undefined;
      if (!last && wrong === undefined) await pause(1);
      const why = rig.said() !== "" ? rig.said() : wrong;
      if (why !== undefined) return { streams, failure: { why, stream, seed: seed + streams } };
      if (!last) continue;
      await rig.end();
      rig = undefined;
    }
    return { streams };
  } finally {
    await rig?.end();
    rmSync(path, { recursive: true, force: true });
  }
}

/** A supervisor that greets rightly and then says anything. */
function liar(stream: Buffer, roll: Dice, hello: Buffer): Carrier {
  let on: Parameters<Carrier["start"]>[0] | undefined;
  let told = false;
  let closed = false;
  const close = (): void => {
    if (closed) return;
    closed = true;
    on?.close();
  };
  return {
    start: (given) => void (on = given),
    write(bytes) {
      const at = Buffer.from(bytes).indexOf("BEG1H");
      if (at < 0 || told) return;
      told = true;
      const sess = Buffer.from(bytes).subarray(at + 24, at + 28);
      const answer = Buffer.from(hello);
      Buffer.from(bytes).copy(answer, 32, at + 32 + 12, at + 32 + 28);
      const said = [answer, ...framesOf(stream)].map((frame) => {
        const copy = Buffer.from(frame);
        sess.copy(copy, 24);
        return roll(30) === 0 ? frame : mend(copy, "head");
      });
      setImmediate(() => {
        for (const part of cutUp(Buffer.concat(said), roll)) on?.data(part);
        setImmediate(close);
      });
    },
    destroy: close,
  };
}

async function oneLink(stream: Buffer, roll: Dice, hello: Buffer): Promise<string | undefined> {
  const carrier = liar(stream, roll, hello);
  const on = createResident({
    connect: () => Promise.resolve(carrier),
    fate: () => Promise.resolve({ state: "ended", reason: "it is over" }),
    epoch: 1,
    nonce: () => Buffer.from(Array.from({ length: 16 }, () => roll(256))),
    clock: systemClock,
    log: silent,
  });
  try {
    const handle = await on.exec("box", { command: ["cat"], timeoutMs: 3000 });
    const sent = handle
      .write(Buffer.alloc(50_000))
      .then(() => handle.end())
      .catch(() => undefined);
    let bytes = 0;
    for await (const { data, free } of handle.output) {
      bytes += data.length;
      free?.();
    }
    await sent;
    await handle.exit;
    return bytes > stream.length ? `${bytes} bytes of output from a stream of ${stream.length}` : undefined;
  } catch (error) {
    return error instanceof BeigeError ? undefined : String(error);
  } finally {
    on.close();
  }
}

function readAll(stream: Buffer, roll: Dice): string | undefined {
  const read = createReader(Buffer.alloc(16));
  try {
    for (const part of cutUp(stream, roll))
      for (const { data } of read(part)) if (data.length > OUT_MAX) return `a frame of ${data.length} bytes`;
    return undefined;
  } catch (error) {
    return String(error).includes("broken") ? undefined : String(error);
  }
}

/** Streams from PID 1: each command ends, with a word, and what it says is never more than came. */
export async function fuzzGateway(seconds: number, seed: number): Promise<Fuzzed> {
  const recorded = recordings("gateway");
  const hello = (recorded[0]?.[0] ?? Buffer.alloc(72)).subarray(0, 72);
  const until = performance.now() + seconds * 1000;
  let streams = 0;
  let failure: Fuzzed["failure"];
  const lane = async (): Promise<void> => {
    while (performance.now() < until && failure === undefined) {
      const mine = seed + streams++;
      const roll = dice(mine);
      const stream = mutate((recorded[roll(recorded.length)] ?? []).slice(1), roll, "head");
      const over = new AbortController();
      const late = sleep(LATE_MS, "the command did not end", { signal: over.signal }).catch(() => undefined);
      const why = readAll(Buffer.concat([hello, stream]), roll) ?? (await Promise.race([oneLink(stream, roll, hello), late]));
      over.abort();
      if (why !== undefined) failure = { why, stream, seed: mine };
    }
  };
  await Promise.all(Array.from({ length: 16 }, lane));
  return failure === undefined ? { streams } : { streams, failure };
}

/** Records what both sides say of a few commands, for the corpus. */
export async function record(): Promise<void> {
  for (const [name, run] of Object.entries(SCENES)) {
    const said = { in: [] as Buffer[], out: [] as Buffer[] };
    const rig = openRig();
    rig.meddle = (chunk, way) => {
      said[way].push(Buffer.from(chunk));
      return { pass: chunk, cut: false };
    };
    const on = residentOf(rig);
    await run(on);
    await pause(100);
    on.close();
    await rig.end();
    for (const [side, way] of [
      ["supervisor", "in"],
      ["gateway", "out"],
    ] as const) {
      mkdirSync(join(corpus, side), { recursive: true });
      writeFileSync(join(corpus, side, `${name}.bin`), Buffer.concat(framesOf(Buffer.concat(said[way]))));
    }
  }
}

type Scene = (on: ReturnType<typeof residentOf>) => Promise<unknown>;

const SCENES: Readonly<Record<string, Scene>> = {
  short: async (on) => whole(await on.exec("box", { command: ["true"], cwd: "/", timeoutMs: 5000 })),
  input: async (on) => whole(await on.exec("box", { command: ["cat"], cwd: "/", timeoutMs: 5000 }), Buffer.alloc(700, 120)),
  killed: async (on) => {
    const handle = await on.exec("box", { command: ["sleep", "9"], cwd: "/", timeoutMs: 5000 });
    handle.signal?.(28);
    handle.kill();
    await handle.exit;
  },
  terminal: async (on) => {
    const handle = await on.exec("box", { command: ["cat"], cwd: "/", timeoutMs: 5000, terminal: { rows: 5, columns: 50 } });
    handle.resize?.({ rows: 6, columns: 60 });
    await whole(handle, Buffer.from("hello\n"));
  },
  several: async (on) => {
    const one = async (word: string) =>
      whole(await on.exec("box", { command: ["echo", word], cwd: "/", env: { A: word }, timeoutMs: 5000 }));
    await Promise.all(["a", "b", "c"].map(one));
  },
};
