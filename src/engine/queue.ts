// One queue of keys: a key never runs twice at once, errors back off, everything else waits its time.
import type { Verdict } from "../core/kind.ts";
import type { Clock, Log, Random } from "../core/world.ts";
import { createPace } from "./pace.ts";

export interface QueueOptions {
  readonly concurrency: number;
  /** First delay after a failure; doubles, with full jitter. */
  readonly baseMs: number;
  readonly capMs: number;
}
export const QUEUE: QueueOptions = { concurrency: 4, baseMs: 200, capMs: 30_000 };

export interface QueueDeps {
  /** Never called for a key that is running. What it throws counts as a retry. */
  readonly run: (key: string, signal: AbortSignal) => Promise<Verdict>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly options?: QueueOptions;
}

export interface Queue {
  /** Something changed: runs as soon as there is room, or once more after the running pass; forgets the failures. */
  readonly event: (key: string) => void;
  /** Something may have changed: as `event`, but a key that backs off keeps its time, for its own failing pass may have caused the hint. */
  readonly hint: (key: string) => void;
  /** What a key that waits may wait for has happened: as `hint`, but a key at rest stays so. */
  readonly nudge: (key: string) => void;
  /** Keys that run or are about to. */
  readonly busy: () => number;
  /** Resolves when nothing runs or is ready to run. Waits and backoffs do not count. */
  readonly idle: () => Promise<void>;
  /** Aborts what runs and waits for it, at most `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

interface Entry {
  state: "idle" | "ready" | "running";
  /** What came while it ran. */
  again: "no" | "hint" | "event";
  failures: number;
  timer?: { cancel(): void };
  backingOff: boolean;
}

/** Full jitter: anywhere below the doubled delay. */
export function backoffMs(failures: number, random: Random, options: QueueOptions): number {
  const ceiling = Math.min(options.capMs, options.baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.ceil(random.float() * ceiling);
}

export function createQueue(deps: QueueDeps): Queue {
  const options = deps.options ?? QUEUE;
  const entries = new Map<string, Entry>();
  const ready = new Set<string>();
  const stopping = new AbortController();
  const pace = createPace(deps.clock);
  let running = 0;
  let idlers: (() => void)[] = [];

  function entryOf(key: string): Entry {
    const known = entries.get(key);
    if (known !== undefined) return known;
    const entry: Entry = { state: "idle", again: "no", failures: 0, backingOff: false };
    entries.set(key, entry);
    return entry;
  }

  function calm(entry: Entry): void {
    entry.timer?.cancel();
    delete entry.timer;
    entry.backingOff = false;
  }

  function add(key: string, entry: Entry, by: "hint" | "event" = "event"): void {
    if (stopping.signal.aborted) return;
    calm(entry);
    if (entry.state === "running") {
      if (entry.again !== "event") entry.again = by;
      return;
    }
    entry.state = "ready";
    ready.add(key);
    pump();
  }

  function later(key: string, entry: Entry, ms: number): void {
    entry.timer = deps.clock.after(ms, () => add(key, entry));
  }

  function retry(key: string, entry: Entry, retryAfterMs: number | undefined): void {
    entry.failures += 1;
    entry.backingOff = true;
    later(key, entry, retryAfterMs ?? backoffMs(entry.failures, deps.random, options));
  }

  function settle(key: string, entry: Entry, verdict: Verdict): void {
    if (verdict.next !== "retry") entry.failures = 0;
    // A failing pass may have caused the hints that came during it.
    if (entry.again === "event" || (entry.again === "hint" && verdict.next !== "retry")) return add(key, entry);
    switch (verdict.next) {
      case "retry":
        return retry(key, entry, verdict.retryAfterMs);
      case "wait":
        if (verdict.ms !== undefined) later(key, entry, verdict.ms);
        return;
      case "settled":
        // What is at rest takes no memory.
        entries.delete(key);
    }
  }

  async function pass(key: string, entry: Entry): Promise<void> {
    let verdict: Verdict;
    try {
      // A thousand passes that never wait for anything would otherwise be one long stretch.
      await pace();
      verdict = await deps.run(key, stopping.signal);
    } catch (error) {
      deps.log.error("a pass failed", { key, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
      verdict = { next: "retry", code: "internal", message: String(error) };
    }
    running -= 1;
    entry.state = "idle";
    if (!stopping.signal.aborted) settle(key, entry, verdict);
    pump();
  }

  function pump(): void {
    for (const key of ready) {
      if (running >= options.concurrency) break;
      const entry = entryOf(key);
      ready.delete(key);
      entry.state = "running";
      entry.again = "no";
      running += 1;
      void pass(key, entry);
    }
    if (running > 0 || ready.size > 0) return;
    for (const resolve of idlers) resolve();
    idlers = [];
  }

  const idle = (): Promise<void> =>
    running === 0 && ready.size === 0 ? Promise.resolve() : new Promise<void>((resolve) => idlers.push(resolve));

  return {
    event(key) {
      const entry = entryOf(key);
      entry.failures = 0;
      add(key, entry);
    },
    hint(key) {
      const entry = entryOf(key);
      if (!entry.backingOff) add(key, entry, "hint");
    },
    nudge(key) {
      const entry = entries.get(key);
      if (entry !== undefined && !entry.backingOff) add(key, entry, "hint");
    },
    busy: () => running + ready.size,
    idle,
    async stop(graceMs) {
      stopping.abort();
      ready.clear();
      for (const entry of entries.values()) calm(entry);
      const limit = new AbortController();
      await Promise.race([idle(), deps.clock.sleep(graceMs, limit.signal).catch(() => undefined)]);
      limit.abort();
    },
  };
}
