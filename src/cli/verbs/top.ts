// beige top: what agents do just now, and what they used today; again and again on a terminal, once in a pipe.
import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { asBeigeError, BeigeError } from "../../core/errors.ts";
import { condition, nsName, type Resource } from "../../core/resource.ts";
import type { Agent } from "../../core/resource.ts";
import type { UsageReport } from "../../core/ledger.ts";
import type { SessionView } from "../../core/session.ts";
import { usedBy, wholeId, type Used } from "../cgroup.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { KINDS, pathOf } from "../names.ts";
import { drawTop, type Slots, type Top, type TopRow } from "../render/top.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
/** Between the two looks of a single answer: a share of time needs two. */
const LOOK_MS = 200;
/** q, Ctrl-C, Ctrl-D. */
const ENDING = ["q", "\u0003", "\u0004"];
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const OTHER_SCREEN = "\u001b[?1049h\u001b[?25l";
const FIRST_SCREEN = "\u001b[?25h\u001b[?1049l";

interface Look {
  readonly at: number;
  readonly used: ReadonlyMap<string, Used>;
}

async function agents(context: Context): Promise<readonly Agent[]> {
  const kind = KINDS.find((each) => each.kind === "Agent");
  if (kind === undefined) return [];
  const { items } = await context.client.get<{ readonly items: readonly Resource[] }>({ path: pathOf({ kind, namespace: "" }, true) });
  return items as readonly Agent[];
}

const nameOf = ({ metadata }: Agent): string => nsName(metadata.namespace, metadata.name);

function stateOf(agent: Agent): string {
  if (agent.spec.suspend) return "suspended";
  const ready = condition(agent, "Ready");
  return ready?.status === "True" ? "ready" : (ready?.reason ?? "new");
}

/** Names of all containers' groups on this machine. */
function groups(): readonly string[] {
  const places = ["", "/memory"].flatMap((root) => ["/system.slice", "/docker"].map((place) => `/sys/fs/cgroup${root}${place}`));
  return places.flatMap((place) => {
    try {
      return readdirSync(place);
    } catch {
      return [];
    }
  });
}

function look(context: Context, known: readonly Agent[]): Look {
  // A gateway that is named by its address may be on another machine.
  const names = context.remote ? [] : [...new Set(groups())];
  const used = known.flatMap((agent) => {
    const short = agent.status?.observed?.["container"];
    const id = typeof short === "string" ? wholeId(short, names) : undefined;
    const found = id === undefined ? undefined : usedBy(id);
    return found === undefined ? [] : [[nameOf(agent), found] as const];
  });
  return { at: performance.now(), used: new Map(used) };
}

const usage = (context: Context, since: number): Promise<UsageReport> =>
  context.client.get<UsageReport>({ path: `/api/usage?by=agent&since=${since}&limit=1000` });

/** Lines of the metrics that are about slots, by provider. */
export function slotsIn(text: string): readonly Slots[] {
  const found = new Map<string, { used: number; waiting: number; limit: number }>();
  for (const [, what, provider, value] of text.matchAll(
    /^beige_provider_slots_(used|waiting|limit)\{[^}]*provider="([^"]*)"[^}]*\} (-?\d+)/gm,
  )) {
    const slots = found.get(provider ?? "") ?? { used: 0, waiting: 0, limit: -1 };
    slots[what as "used"] = Number(value);
    found.set(provider ?? "", slots);
  }
  return [...found].map(([provider, slots]) => ({ provider, ...slots }));
}

async function slots(context: Context): Promise<readonly Slots[]> {
  const answer = await context.client.ask({ path: "/metrics", accept: "text/plain" });
  const text = await answer.text();
  return answer.status === 200 ? slotsIn(text) : [];
}

async function rowOf(
  context: Context,
  agent: Agent,
  told: { readonly today: UsageReport; readonly minute: UsageReport; readonly looks: readonly [Look, Look] },
): Promise<TopRow> {
  const name = nameOf(agent);
  const { sessions } = await context.client.get<{ readonly sessions: readonly SessionView[] }>({ path: `/api/agents/${name}/sessions` });
  const day = told.today.items.find((line) => line.name === name);
  const [before, now] = told.looks.map((each) => each.used.get(name));
  const spanMs = told.looks[1].at - told.looks[0].at;
  return {
    agent: name,
    state: stateOf(agent),
    sessions: sessions.length,
    turns: sessions.filter((session) => session.running).length,
    requests: day?.open ?? 0,
    requestsPerMinute: told.minute.items.find((line) => line.name === name)?.requests ?? 0,
    tokens: day?.tokens ?? 0,
    usd: day?.usd ?? 0,
    unpriced: day?.unpriced ?? 0,
    ...(now !== undefined && { memoryBytes: now.memoryBytes }),
    ...(now !== undefined && before !== undefined && { cpuPercent: Math.max(0, (100 * (now.cpuMs - before.cpuMs)) / spanMs) }),
  };
}

async function topNow(context: Context, before: Look | undefined): Promise<{ readonly top: Top; readonly look: Look }> {
  const now = context.now();
  const known = await agents(context);
  const first = before ?? look(context, known);
  if (before === undefined) await pause(LOOK_MS);
  const [today, minute, held] = await Promise.all([usage(context, now - (now % DAY_MS)), usage(context, now - MINUTE_MS), slots(context)]);
  const second = look(context, known);
  const rows: TopRow[] = [];
  for (const agent of known) rows.push(await rowOf(context, agent, { today, minute, looks: [first, second] }));
  return { top: { rows, slots: held }, look: second };
}

/** `q` ends it like Ctrl-C: in raw mode the terminal makes no signal of that. */
function keys(stop: () => void): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => undefined;
  const heard = (bytes: Buffer): void => (ENDING.some((key) => bytes.includes(key)) ? stop() : undefined);
  stdin.setRawMode(true).on("data", heard);
  return () => void stdin.off("data", heard).setRawMode(false).pause();
}

/** Until a key or a signal; the screen is then as it was. */
async function again(context: Context, everyMs: number): Promise<number> {
  const { out } = context;
  const ended = new AbortController();
  const off = keys(() => ended.abort());
  const signal = AbortSignal.any([context.signal, ended.signal]);
  await out.write(OTHER_SCREEN);
  try {
    let before: Look | undefined;
    while (!signal.aborted) {
      const seen = await topNow(context, before).catch((error: unknown) => asBeigeError(error));
      const body = seen instanceof BeigeError ? [out.paint("red", seen.message), seen.hint ?? ""] : drawTop(out, seen.top);
      before = seen instanceof BeigeError ? undefined : seen.look;
      const lines = [`${out.paint("bold", "beige top")}  ${new Date(context.now()).toISOString().slice(11, 19)} UTC  q ends`, ...body];
      await out.write(`${HOME_AND_CLEAR}${lines.slice(0, Math.max(4, (process.stdout.rows ?? 24) - 1)).join("\n")}`);
      await pause(everyMs, undefined, { signal }).catch(() => undefined);
    }
    return 0;
  } finally {
    await out.write(FIRST_SCREEN);
    off();
  }
}

async function once(context: Context, input: Input): Promise<number> {
  const { top } = await topNow(context, undefined);
  const { out } = context;
  await out.write(
    word(input, "output") === "json"
      ? `${JSON.stringify(top, undefined, 2)}\n`
      : drawTop(out, top)
          .map((line) => `${line}\n`)
          .join(""),
  );
  return 0;
}

export const run: Run = async (context, input) => {
  const everyMs = Math.max(250, milliseconds(word(input, "interval") ?? "2s", "--interval"));
  const single = on(input, "once") || word(input, "output") !== undefined || !context.out.tty;
  return single ? once(context, input) : again(context, everyMs);
};
