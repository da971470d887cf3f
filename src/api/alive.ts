// Keeps a silent stream open: what lies between cuts a connection on which nothing was said for a minute, and a provider may think longer.
import type { RouteDeps } from "./deps.ts";

export interface Alive {
  /** Something was sent, or is waiting to be taken. */
  readonly said: () => void;
  readonly stop: () => void;
}

/** Calls `beat` where nothing was said for `aliveMs`, again and again; one timer a stream, so that what is said costs nothing. */
export function keepAlive({ clock, limits }: Pick<RouteDeps, "clock" | "limits">, beat: () => void): Alive {
  const stepMs = limits.aliveMs / 2;
  let silent = 0;
  const step = (): void => {
    timer = clock.after(stepMs, step);
    silent += 1;
    if (silent < 2) return;
    silent = 0;
    beat();
  };
  let timer = clock.after(stepMs, step);
  return { said: () => void (silent = 0), stop: () => timer.cancel() };
}
