// Streams: the first token, a chunk's processor time, many at once, and how many bytes come out for those that go in.
import type { Peer } from "./gateway-nginx.ts";
import type { Done, Goal, Job } from "./gateway-load.ts";
import { cpuMs, type Rig } from "./gateway-rig.ts";
import { type Line, median, within } from "./measure.ts";

const STREAMS = 50;
const CHUNKS = 500;
const ROUNDS = 9;
/** 300 ms where the provider alone takes 138. */
const LIMIT = 2.17;
const FIRST_REQUESTS = 60;
const FIRST_ROUNDS = 5;
/** Apart in time, so that each has to be read and written by itself. */
const PACED_STREAMS = 20;
const PACED_CHUNKS = 300;

const job = (goal: Goal, model: string, count: number): Job => ({ goal, model, stream: true, clients: count, requests: count });

async function firstToken(rig: Rig, nginx: Peer | undefined): Promise<Line> {
  const goals = [rig.direct, rig.ours, ...(nginx === undefined ? [] : [nginx.goal])];
  const first = goals.map((): number[] => []);
  for (let round = -1; round < FIRST_ROUNDS; round++) {
    for (const [index, goal] of goals.entries()) {
      const done = await rig.run({ ...job(goal, "chunks-5", FIRST_REQUESTS), clients: 1 });
      if (round >= 0) first[index]?.push(...done.first);
    }
  }
  const [direct = 0, ours = 0, peer = 0] = first.map(median);
  const note = `median of ${FIRST_ROUNDS * FIRST_REQUESTS}${nginx === undefined ? "" : `; nginx ${(peer - direct).toFixed(2)}`}`;
  return within({ line: "first token of a stream: added", unit: "ms", limit: 1, note }, ours - direct);
}

interface Flow {
  readonly ms: number;
  /** Processor time of a chunk, in microseconds. */
  readonly us: number;
  readonly bytes: number;
}

async function flows(
  rig: Rig,
  about: { readonly goal: Goal; readonly pid?: number; readonly model: string; readonly streams: number },
): Promise<Flow> {
  const { goal, pid, model, streams: count } = about;
  const before = pid === undefined ? 0 : cpuMs(pid);
  const done: Done = await rig.run(job(goal, model, count));
  const cpu = pid === undefined ? 0 : cpuMs(pid) - before;
  return { ms: done.ms, us: (cpu * 1000) / (count * Number(model.split("-")[1])), bytes: done.bytes };
}

/** Turn about, so that what slows the machine slows all. */
async function flowing(
  rig: Rig,
  nginx: Peer | undefined,
  about: { readonly model: string; readonly streams: number; readonly rounds: number },
): Promise<readonly Flow[]> {
  const goals = [{ goal: rig.direct }, { goal: rig.ours, pid: rig.gateway.pid() }, ...(nginx === undefined ? [] : [nginx])];
  const all = goals.map((): Flow[] => []);
  for (let round = -2; round < about.rounds; round++) {
    for (const [index, goal] of goals.entries()) {
      const flow = await flows(rig, { ...goal, ...about });
      if (round >= 0) all[index]?.push(flow);
    }
  }
  return all.map((each) => ({
    ms: median(each.map(({ ms }) => ms)),
    us: median(each.map(({ us }) => us)),
    bytes: median(each.map(({ bytes }) => bytes)),
  }));
}

export async function streams(rig: Rig, nginx: Peer | undefined): Promise<readonly Line[]> {
  const first = await firstToken(rig, nginx);
  const [direct, ours, peer] = await flowing(rig, nginx, { model: `chunks-${CHUNKS}`, streams: STREAMS, rounds: ROUNDS });
  const [, slow, slowPeer] = await flowing(rig, nginx, { model: `paced-${PACED_CHUNKS}`, streams: PACED_STREAMS, rounds: 2 });
  if (direct === undefined || ours === undefined || slow === undefined) throw new Error("no streams");
  const beside = (flow: Flow | undefined, key: "ms" | "us"): string => (flow === undefined ? "" : `; nginx ${flow[key].toFixed(1)}`);
  const ratio = ours.ms / direct.ms;
  const alone = `each by itself, every 3 ms: ${slow.us.toFixed(1)}${beside(slowPeer, "us")}`;
  const many = `${STREAMS} streams of ${CHUNKS} chunks`;
  return [
    first,
    within(
      { line: "a chunk: processor time", unit: "us", limit: 15, note: `${many}, requests included${beside(peer, "us")}; ${alone}` },
      ours.us,
    ),
    {
      line: many,
      unit: "ms",
      value: ours.ms,
      floor: direct.ms,
      ratio,
      limit: LIMIT,
      met: ratio <= LIMIT,
      note: `floor: without a gateway${beside(peer, "ms")}`,
    },
    within(
      { line: "bytes out for bytes in", unit: "x", limit: 1.1, note: `${Math.round(direct.bytes / 1024)} KiB in` },
      ours.bytes / direct.bytes,
    ),
  ];
}
