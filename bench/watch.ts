// A thousand changes a second to a hundred watches: whether the last one has heard of the last change about when it was made.
import { Agent, request } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Gateway, makeGateway, pause } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import { type Line, within } from "./measure.ts";

const WATCHERS = 100;
const OBJECTS = 100;
const CHANGES = 5000;
const CHANGES_A_MS = 1;
const IN_FLIGHT = 32;
/** How far behind still keeps up. */
const BEHIND_MS = 1000;
const LIMIT_MS = CHANGES / CHANGES_A_MS + BEHIND_MS;
const GIVE_UP_MS = 60_000;
const LAST = "the-last-change";
const PROVIDERS = "/apis/beige.dev/v1/providers";
const TICKS_A_SECOND = 100;

interface Heard {
  readonly lines: number;
  /** Whether it heard of the last change. */
  readonly whole: boolean;
}

interface Watcher {
  /** Resolves with the last change, or when the stream is cut. */
  readonly heard: Promise<Heard>;
  close(): void;
}

/** Reads as little as it can, so that the gateway is what is measured. */
function watch(socketPath: string, version: string): Promise<Watcher> {
  return new Promise((begun, fail) => {
    const sent = request({ socketPath, path: `${PROVIDERS}?watch=1&resourceVersion=${version}`, agent: false }, (answer) => {
      if (answer.statusCode !== 200) fail(new Error(`a watch answers ${answer.statusCode}`));
      const heard = new Promise<Heard>((done) => {
        let lines = 0;
        let tail = "";
        answer.on("data", (part: Buffer) => {
          for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, at + 1)) lines += 1;
          const whole = part.includes(LAST) || (tail + part.toString("latin1", 0, LAST.length)).includes(LAST);
          tail = part.toString("latin1", Math.max(0, part.length - LAST.length));
          if (whole) done({ lines, whole });
        });
        for (const event of ["error", "close"] as const) answer.on(event, () => done({ lines, whole: false }));
      });
      begun({ heard, close: () => sent.destroy() });
    });
    sent.on("error", fail);
    sent.end();
  });
}

/** Changes a label of one object after another; each is a durable write of its own. `paceMs` says when the next is due. */
async function change(socketPath: string, what: { readonly count: number; readonly mark: string; readonly paced: boolean }): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  const began = performance.now();
  let next = 0;
  const one = (i: number): Promise<void> =>
    new Promise((done, fail) => {
      const value = i === what.count - 1 ? LAST : `${what.mark}-${i}`;
      const body = JSON.stringify({ metadata: { labels: { change: value } } });
      const headers = { "content-type": "application/merge-patch+json", "content-length": Buffer.byteLength(body) };
      const sent = request({ socketPath, agent, method: "PATCH", path: `${PROVIDERS}/watched-${i % OBJECTS}`, headers }, (answer) => {
        answer.resume();
        if (answer.statusCode === 200) answer.on("end", done);
        else fail(new Error(`a change answers ${answer.statusCode}`));
      });
      sent.on("error", fail);
      sent.end(body);
    });
  const worker = async (): Promise<void> => {
    for (let i = next++; i < what.count; i = next++) {
      const early = began + i / CHANGES_A_MS - performance.now();
      if (what.paced && early > 0) await pause(early);
      await one(i);
    }
  };
  try {
    await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  } finally {
    agent.destroy();
  }
}

/** Milliseconds of processor time that a process had so far. */
function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_A_SECOND;
}

const percent = (part: number, whole: number): string => `${Math.round((100 * part) / whole)}%`;

async function measure(gateway: Gateway): Promise<Line> {
  const socket = join(gateway.home, "beige.sock");
  const alone = performance.now();
  await change(socket, { count: CHANGES, mark: "alone", paced: false });
  const aloneRate = (CHANGES * 1000) / (performance.now() - alone);
  await change(socket, { count: 1, mark: "between", paced: false });
  // The name of the last change must not be in what the watches start from.
  const listed = await gateway.request("GET", PROVIDERS);
  const watchers = await Promise.all(Array.from({ length: WATCHERS }, () => watch(socket, listed.body.metadata.resourceVersion)));
  const busy = processorMs(gateway.pid());
  const own = process.cpuUsage();
  const began = performance.now();
  let writtenMs = Number.NaN;
  const writing = change(socket, { count: CHANGES, mark: "seen", paced: true }).then(() => (writtenMs = performance.now() - began));
  const timer = setTimeout(() => watchers.forEach((watcher) => watcher.close()), GIVE_UP_MS);
  const heard = await Promise.all(watchers.map((watcher) => watcher.heard));
  const took = performance.now() - began;
  const { user, system } = process.cpuUsage(own);
  const load = `processor: gateway ${percent(processorMs(gateway.pid()) - busy, took)}, bench ${percent((user + system) / 1000, took)}`;
  clearTimeout(timer);
  watchers.forEach((watcher) => watcher.close());
  await writing;
  const lost = heard.filter((each) => !each.whole || each.lines < CHANGES).length;
  const rates = `written in ${Math.round(writtenMs)} ms (without watches ${Math.round(aloneRate)}/s)`;
  const note = `to the last change at the last client; ${rates}; ${lost} clients missed any; ${load}`;
  const line = within({ line: "5,000 changes at 1,000/s to 100 watches", unit: "ms", limit: LIMIT_MS, note }, took);
  return { ...line, met: line.met && lost === 0 };
}

export async function fanOut(program: string): Promise<Line> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  const watched = (i: number): string =>
    `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: watched-${i}, labels: {change: none}}\nspec: {api: echo}\n`;
  try {
    await gateway.start();
    await gateway.apply(Array.from({ length: OBJECTS }, (_, i) => watched(i)).join("---\n"));
    return await measure(gateway);
  } finally {
    await gateway.clean();
  }
}
