// Carries a turn's events from the loop that makes them to the one who reads them; adjacent deltas melt, so it stays small.
import type { TurnEvent } from "../core/turn.ts";

const EVENTS_MAX = 10_000;
const CHARS_MAX = 16_000_000;

export interface Feed {
  /** False when the reader is too far behind; the event is dropped then. */
  push(event: TurnEvent): boolean;
  /** The last event; later ones are ignored. */
  end(event: TurnEvent): void;
  events(): AsyncGenerator<TurnEvent>;
}

const sizeOf = (event: TurnEvent): number => ("delta" in event ? event.delta.length : 200);

export function createFeed(): Feed {
  const queue: TurnEvent[] = [];
  let chars = 0;
  let ended = false;
  let wake: (() => void) | undefined;
  const add = (event: TurnEvent): void => {
    const last = queue.at(-1);
    if (last !== undefined && "delta" in last && "delta" in event && last.type === event.type) {
      queue[queue.length - 1] = { ...last, delta: last.delta + event.delta };
    } else queue.push(event);
    chars += sizeOf(event);
    wake?.();
  };
  return {
    push(event) {
      if (ended) return true;
      if (queue.length >= EVENTS_MAX || chars >= CHARS_MAX) return false;
      add(event);
      return true;
    },
    end(event) {
      if (ended) return;
      add(event);
      ended = true;
    },
    async *events() {
      while (true) {
        const next = queue.shift();
        if (next !== undefined) {
          chars = queue.length === 0 ? 0 : chars - sizeOf(next);
          yield next;
          if (next.type === "done" || next.type === "error") return;
          continue;
        }
        const more = Promise.withResolvers<void>();
        wake = more.resolve;
        await more.promise;
        wake = undefined;
      }
    },
  };
}
