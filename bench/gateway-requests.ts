// Whole answers: processor time, requests a second on a core, and what is added to each at 16 clients.
import type { Peer } from "./gateway-nginx.ts";
import type { Done, Goal, Job } from "./gateway-load.ts";
import { cpuMs, type Rig, waitedMs } from "./gateway-rig.ts";
import { atLeast, type Line, median, within } from "./measure.ts";

const CLIENTS = 16;
const BUSY_REQUESTS = 1_500;
const BUSY_ROUNDS = 5;
const WARM_REQUESTS = 3_000;
const CALM_REQUESTS = 480;
const CALM_ROUNDS = 7;

export const quantile = (numbers: readonly number[], part: number): number =>
  numbers.toSorted((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * part))] ?? Number.NaN;

const job = (goal: Goal, model: string, count: number): Job => ({ goal, model, stream: false, clients: CLIENTS, requests: count });

interface Busy {
  readonly cpu: number;
  /** Of the time in which others had not taken the core. */
  readonly rate: number;
  readonly raw: number;
}

async function busy(rig: Rig, goal: Goal, pid: number): Promise<Busy> {
  const before = { cpu: cpuMs(pid), waited: waitedMs(pid) };
  const { ms } = await rig.run(job(goal, "whole", BUSY_REQUESTS));
  const own = ms - (waitedMs(pid) - before.waited);
  const a = (time: number): number => (BUSY_REQUESTS / time) * 1000;
  return { cpu: (cpuMs(pid) - before.cpu) / BUSY_REQUESTS, rate: a(own), raw: a(ms) };
}

async function rounds(rig: Rig, goal: Goal, pid: number): Promise<Busy> {
  const all: Busy[] = [];
  for (let i = 0; i < BUSY_ROUNDS; i++) all.push(await busy(rig, goal, pid));
  const of = (key: keyof Busy): number => median(all.map((each) => each[key]));
  return { cpu: of("cpu"), rate: of("rate"), raw: of("raw") };
}

export async function requests(rig: Rig, peers: readonly Peer[]): Promise<readonly Line[]> {
  await rig.run(job(rig.ours, "whole", WARM_REQUESTS));
  const ours = await rounds(rig, rig.ours, rig.gateway.pid());
  const theirs: (Busy & { readonly name: string })[] = [];
  for (const { name, goal, pid } of peers) theirs.push({ name, ...(await rounds(rig, goal, pid)) });
  const alone = await rig.run(job(rig.direct, "whole", BUSY_REQUESTS));
  const straight = `without a gateway ${Math.round((BUSY_REQUESTS / alone.ms) * 1000)}`;
  const beside = (key: "cpu" | "rate", digits: number): string =>
    theirs.map((peer) => `; ${peer.name} ${peer[key].toFixed(digits)}`).join("");
  const shared = `${Math.round(ours.raw)} with the time that others had the core`;
  return [
    within({ line: "a request: processor time", unit: "ms", limit: 0.7, note: `${BUSY_ROUNDS} rounds${beside("cpu", 3)}` }, ours.cpu),
    atLeast(
      {
        line: `requests on one core, ${CLIENTS} clients`,
        unit: "requests/s",
        limit: 1500,
        note: `${shared}; ${straight}${beside("rate", 0)}`,
      },
      ours.rate,
    ),
    ...(await added(rig, peers)),
  ];
}

/** A provider that takes its time: the gateway is not at its limit, and what it adds is its own doing. */
async function added(rig: Rig, peers: readonly Peer[]): Promise<readonly Line[]> {
  const goals = [rig.direct, rig.ours, ...peers.map(({ goal }) => goal)];
  const rounds = goals.map((): Done["took"][] => []);
  const pid = rig.gateway.pid();
  let waited = 0;
  for (let round = -1; round < CALM_ROUNDS; round++) {
    for (const [index, goal] of goals.entries()) {
      const before = waitedMs(pid);
      const { took } = await rig.run(job(goal, "think", CALM_REQUESTS));
      if (round < 0) continue;
      rounds[index]?.push(took);
      if (goal === rig.ours) waited += waitedMs(pid) - before;
    }
  }
  /** What each round adds to the direct one beside it. */
  const over = (index: number, part: number): readonly number[] =>
    (rounds[index] ?? []).map((took, i) => quantile(took, part) - quantile(rounds[0]?.[i] ?? [], part));
  const core = `${(waited / CALM_ROUNDS / CALM_REQUESTS).toFixed(2)} ms a request others had the core`;
  const line = (part: number, limit: number): Line => {
    const theirs = peers.map(({ name }, index) => `; ${name} ${median(over(index + 2, part)).toFixed(2)}`).join("");
    const note = `${CALM_ROUNDS} rounds, ${Math.min(...over(1, part)).toFixed(2)} in the quietest; ${core}${theirs}`;
    return within({ line: `a request: added, p${part * 100} at ${CLIENTS} clients`, unit: "ms", limit, note }, median(over(1, part)));
  };
  return [line(0.5, 1), line(0.99, 5)];
}
