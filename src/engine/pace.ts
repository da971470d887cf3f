// Keeps the event loop free during long synchronous work.
import { setImmediate as breathe } from "node:timers/promises";
import type { Clock } from "../core/world.ts";

/** Longest stretch of work before others get a turn, in milliseconds. */
export const STRETCH_MS = 20;

/**
 * Call between two pieces of work: gives the loop away when the stretch is used up.
 * Workers side by side share one: all of them wait for the same breath, so that their stretches do not add up.
 */
export function createPace(clock: Clock, stretchMs = STRETCH_MS): () => Promise<void> {
  let since = clock.monotonic();
  let breath: Promise<void> | undefined;
  const rest = async (): Promise<void> => {
    await breathe();
    since = clock.monotonic();
    breath = undefined;
  };
  return async () => {
    if (breath === undefined && clock.monotonic() - since < stretchMs) return;
    await (breath ??= rest());
  };
}
