// Commands that go on behind their answers: how many an agent has, and what becomes of them when the gateway is another.
import { UNKNOWN, type AuditCall } from "../core/audit.ts";
import type { ExecHandle } from "../core/sandbox.ts";
import type { Shelf } from "../core/world.ts";
import { BACKGROUND_MAX, type BackgroundSeat, follow } from "./background.ts";
import { messageOf } from "./deadline.ts";
import { insideOf, type ToolOutcome } from "./inside.ts";
import { openLiveFile } from "./live.ts";
import { conclude } from "./perform.ts";
import type { RejoinDeps } from "./rejoin.ts";
import type { RunningCalls } from "./running.ts";

export interface BackgroundsDeps extends RejoinDeps {
  /** Without it no command outlives its gateway. */
  readonly shelf?: Shelf;
}

interface Place {
  readonly uid: string;
  readonly call: string;
  readonly container: string;
}

interface Kept extends Place {
  readonly timeoutMs: number;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

export interface Backgrounds {
  /** Undefined when too many of this agent run. */
  enter(place: Place): BackgroundSeat | undefined;
  readonly stopped: () => boolean;
  /** Takes up again those of the gateway before; waits for nothing. */
  resume(): void;
  /** Commands go on; what is heard of them from now on is not their end. */
  stop(): void;
}

const KEY = "background/";
const WRITER_MS = 24 * 3_600_000;
const TELL_MS = 10_000;

function parse(text: string): Omit<Kept, "call"> | undefined {
  try {
    const { uid, container, timeoutMs, since } = JSON.parse(text) as Partial<Kept>;
    if (typeof uid !== "string" || typeof container !== "string" || typeof timeoutMs !== "number" || typeof since !== "number")
      return undefined;
    return { uid, container, timeoutMs, since };
  } catch {
    return undefined;
  }
}

/** What is known at once of a command that was taken up: undefined when it goes on. */
const lostAlready = async (handle: ExecHandle): Promise<boolean> =>
  (await Promise.race([handle.exit, Promise.resolve(undefined)]))?.kind === "lost";

export function createBackgrounds(deps: BackgroundsDeps, running: Pick<RunningCalls, "enter">): Backgrounds {
  const { shelf, clock, log } = deps;
  const counts = new Map<string, number>();
  let over = false;
  const stopped = (): boolean => over;

  /** A disk that takes nothing keeps a line that the next gateway finds, and finds that it has ended. */
  function forget(call: string): void {
    try {
      shelf?.delete(KEY + call);
    } catch (error) {
      log.warn("an ended command in the background is still written down", { call, error: messageOf(error) });
    }
  }

  function seat({ uid, call, container }: Place): BackgroundSeat {
    counts.set(uid, (counts.get(uid) ?? 0) + 1);
    let sitting = true;
    return {
      keep: (timeoutMs) => shelf?.set(KEY + call, JSON.stringify({ uid, container, timeoutMs, since: clock.now() })),
      leave() {
        if (!sitting) return;
        sitting = false;
        const left = (counts.get(uid) ?? 1) - 1;
        if (left > 0) counts.set(uid, left);
        else counts.delete(uid);
        forget(call);
      },
    };
  }

  /** From its first byte, into a file of the same name; of a lost one what is there stays, and its end is added. */
  async function readAgain(kept: Kept, handle: ExecHandle): Promise<ToolOutcome> {
    const { call, container, timeoutMs } = kept;
    const lost = await lostAlready(handle);
    const file = openLiveFile({ inside: insideOf(deps.sandbox, container), clock, call, timeoutMs: WRITER_MS, adds: lost });
    return follow(handle, { file: lost ? { ...file, write: async () => undefined } : file, timeoutMs, stopped }).end;
  }

  /** In its file as well, where that can be written. */
  function told(kept: Kept): Promise<void> {
    const inside = insideOf(deps.sandbox, kept.container);
    const file = openLiveFile({ inside, clock, call: kept.call, timeoutMs: TELL_MS, adds: true });
    return file.finish("command's end is unknown: the gateway ended before it did");
  }

  async function goOn(kept: Kept, row: AuditCall, cut: AbortSignal): Promise<void> {
    const handle = await deps.sandbox.rejoin?.(kept.container, kept.call, cut).catch((thrown: unknown) => {
      log.warn("a command in the background could not be taken up again", { call: kept.call, error: messageOf(thrown) });
      return undefined;
    });
    if (handle === undefined) {
      await deps.audit.end(kept.call, row, { ...UNKNOWN, background: true });
      return told(kept);
    }
    log.info("a command in the background went on over a restart", { call: kept.call });
    const elapsedMs = Math.max(0, clock.now() - kept.since);
    const run = (): Promise<ToolOutcome> => readAgain(kept, handle);
    await conclude(deps, { id: kept.call, name: row.agent, row, run, elapsedMs }, cut);
  }

  function take(kept: Kept): void {
    const row = deps.left?.take(kept.call);
    if (row === undefined) {
      // The audit has its end already: nothing was kept by which it could be taken up.
      forget(kept.call);
      return void told(kept);
    }
    const never = new AbortController().signal;
    const job = running.enter(kept.uid, never);
    const mine = seat(kept);
    void goOn(kept, row, job?.cut ?? never)
      .catch((thrown: unknown) => log.error("a command in the background was lost", { call: kept.call, error: messageOf(thrown) }))
      .finally(() => {
        mine.leave();
        job?.leave();
      });
  }

  return {
    enter: (place) => ((counts.get(place.uid) ?? 0) >= BACKGROUND_MAX ? undefined : seat(place)),
    stopped,
    resume() {
      for (const { key, value } of shelf?.list(KEY) ?? []) {
        const kept = parse(value);
        if (kept === undefined) shelf?.delete(key);
        else take({ ...kept, call: key.slice(KEY.length) });
      }
    },
    stop: () => void (over = true),
  };
}
