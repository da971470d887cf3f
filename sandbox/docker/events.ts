// Follows the engine's events for as long as the caller wants, over restarts and cut connections. Events are hints: after each
// connection everything is listed anew, so that none has to be trusted to arrive.
import type { Readable } from "node:stream";
import type { SandboxHint } from "../../src/core/sandbox.ts";
import type { Clock } from "../../src/core/world.ts";

const BACKOFF_MIN_MS = 200;
const BACKOFF_MAX_MS = 10_000;
/** A stream that lived shorter was not worth its name: the next one waits, so that an engine that ends each at once is not asked in a loop. */
const STEADY_MS = 5000;
/** A line longer than this is not an event. */
const LINE_MAX = 262_144;
/** A silent connection is replaced after this: a proxy may have dropped it without a word. */
const IDLE_MS = 300_000;

export interface EventSource {
  /** Opens the stream; `since` is "seconds.nanoseconds". */
  open(since: string | undefined, signal: AbortSignal): Promise<Readable>;
  /** Rejects when the engine does not answer. */
  ping(signal: AbortSignal): Promise<void>;
  /** Labels of a container that an event about a network names. */
  labels(id: string): Promise<Readonly<Record<string, string>>>;
}

export interface Watcher {
  hint(hint: SandboxHint): void;
  relist(): void;
  down(error: Error): void;
}

interface EngineEvent {
  readonly Type?: string;
  readonly Action?: string;
  readonly timeNano?: number;
  readonly Actor?: { readonly ID?: string; readonly Attributes?: Readonly<Record<string, string>> };
}

/** What of an event is a hint; `network` events have to be asked about. */
export function readEvent(line: string): { readonly hint: SandboxHint; readonly ask: boolean; readonly nano: number } | undefined {
  let event: EngineEvent;
  try {
    event = JSON.parse(line) as EngineEvent;
  } catch {
    return undefined;
  }
  const attributes = event.Actor?.Attributes ?? {};
  const action = event.Action ?? "";
  const nano = event.timeNano ?? 0;
  if (action.startsWith("exec_")) return undefined;
  if (event.Type === "container" && event.Actor?.ID) {
    return { hint: { id: event.Actor.ID, labels: attributes, action }, ask: false, nano };
  }
  // Each start and stop of a container without network shows as one about the network "none".
  const container = attributes["container"];
  if (event.Type !== "network" || container === undefined || attributes["name"] === "none") return undefined;
  return { hint: { id: container, labels: {}, action: `network ${action}` }, ask: true, nano };
}

/** The moment just after an event, so that the same one does not come twice. JSON numbers lose the last digits; a hint more is harmless. */
const after = (nano: number): string => {
  const next = BigInt(nano) + 1n;
  return `${next / 1_000_000_000n}.${String(next % 1_000_000_000n).padStart(9, "0")}`;
};

async function readStream(stream: Readable, onLine: (line: string) => void): Promise<void> {
  let rest = "";
  stream.setEncoding("utf8");
  for await (const chunk of stream as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") onLine(line);
    if (rest.length > LINE_MAX) throw new Error("an event is too long");
  }
}

export async function watchEvents(source: EventSource, clock: Clock, on: Watcher, signal: AbortSignal): Promise<void> {
  let since: string | undefined;
  let backoffMs = BACKOFF_MIN_MS;
  let said = false;
  const take = (line: string): void => {
    const event = readEvent(line);
    if (event === undefined) return;
    if (event.nano > 0) since = after(event.nano);
    if (event.ask)
      void source.labels(event.hint.id).then(
        (labels) => on.hint({ ...event.hint, labels }),
        () => undefined,
      );
    else on.hint(event.hint);
  };
  while (!signal.aborted) {
    const scope = new AbortController();
    const inner = AbortSignal.any([signal, scope.signal]);
    const began = clock.monotonic();
    let steady = false;
    try {
      const stream = await source.open(since, inner);
      on.relist();
      said = false;
      await followOne(stream, { clock, scope, take });
      // Ended without an error: idle, or the engine is going. Whether it still answers decides if that is worth a word.
      await source.ping(signal);
      steady = scope.signal.aborted;
    } catch (error) {
      if (signal.aborted) return;
      if (!said) on.down(error instanceof Error ? error : new Error(String(error)));
      said = true;
    } finally {
      scope.abort();
    }
    if (clock.monotonic() - began >= STEADY_MS) backoffMs = BACKOFF_MIN_MS;
    if (steady || signal.aborted) continue;
    await clock.sleep(backoffMs * (0.5 + Math.random() / 2), signal).catch(() => undefined);
    backoffMs = Math.min(BACKOFF_MAX_MS, backoffMs * 2);
  }
}

async function followOne(
  stream: Readable,
  with_: { readonly clock: Clock; readonly scope: AbortController; readonly take: (line: string) => void },
): Promise<void> {
  let timer = { cancel(): void {} };
  const rearm = (): void => {
    timer.cancel();
    timer = with_.clock.after(IDLE_MS, () => with_.scope.abort());
  };
  rearm();
  try {
    await readStream(stream, (line) => {
      rearm();
      with_.take(line);
    });
  } catch (error) {
    // Aborted by the idle timer: not a failure.
    if (!with_.scope.signal.aborted) throw error;
  } finally {
    timer.cancel();
    stream.destroy();
  }
}
