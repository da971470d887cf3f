// Hands out a provider's slots in the order of asking; nobody is rejected, everybody gets what they gave back.
import type { Clock } from "../core/world.ts";

/** Held for one attempt. Disposing twice is harmless. */
export interface Slot extends Disposable {
  readonly waitedMs: number;
}

export interface Limiter {
  /** Waits in order while `limit` slots are in use; below 1 means no limit. Rejects with the signal's reason when aborted. */
  slot(provider: string, limit: number, signal: AbortSignal): Promise<Slot>;
  /** A changed limit acts at once, also on those who wait. */
  limit(provider: string, limit: number): void;
  seen(provider: string): { readonly used: number; readonly waiting: number; readonly limit: number };
  /** Forgets a provider once nothing is held or waited for. */
  forget(provider: string): void;
}

interface Waiter {
  readonly grant: () => void;
}
interface Line {
  limit: number;
  used: number;
  /** Insertion order is the order of asking; leaving is one delete. */
  readonly waiting: Set<Waiter>;
}

const unlimited = (limit: number): boolean => limit < 1;

export function createLimiter(clock: Clock): Limiter {
  const lines = new Map<string, Line>();
  const line = (provider: string): Line => {
    const known = lines.get(provider);
    if (known !== undefined) return known;
    const made: Line = { limit: -1, used: 0, waiting: new Set() };
    lines.set(provider, made);
    return made;
  };
  return {
    slot: (provider, limit, signal) => take(line(provider), { limit, clock }, signal),
    limit(provider, limit) {
      const at = line(provider);
      at.limit = limit;
      pass(at);
    },
    seen(provider) {
      const at = lines.get(provider);
      return at === undefined ? { used: 0, waiting: 0, limit: -1 } : { used: at.used, waiting: at.waiting.size, limit: at.limit };
    },
    forget(provider) {
      const at = lines.get(provider);
      if (at !== undefined && at.used === 0 && at.waiting.size === 0) lines.delete(provider);
    },
  };
}

/** Gives free slots to those at the head. */
function pass(line: Line): void {
  for (const waiter of line.waiting) {
    if (!unlimited(line.limit) && line.used >= line.limit) return;
    line.waiting.delete(waiter);
    line.used += 1;
    waiter.grant();
  }
}

function held(line: Line, waitedMs: number): Slot {
  let open = true;
  return {
    waitedMs,
    [Symbol.dispose]() {
      if (!open) return;
      open = false;
      line.used -= 1;
      pass(line);
    },
  };
}

async function take(line: Line, how: { readonly limit: number; readonly clock: Clock }, signal: AbortSignal): Promise<Slot> {
  signal.throwIfAborted();
  line.limit = how.limit;
  if (line.waiting.size === 0 && (unlimited(line.limit) || line.used < line.limit)) {
    line.used += 1;
    return held(line, 0);
  }
  const since = how.clock.monotonic();
  const turn = Promise.withResolvers<void>();
  const waiter: Waiter = { grant: turn.resolve };
  line.waiting.add(waiter);
  pass(line);
  // Still in line when the signal fires: leaves without a slot. Otherwise the slot is held and given back by its owner.
  const leave = (): void => {
    if (line.waiting.delete(waiter)) turn.reject(signal.reason);
  };
  signal.addEventListener("abort", leave, { once: true });
  try {
    await turn.promise;
  } finally {
    signal.removeEventListener("abort", leave);
  }
  return held(line, how.clock.monotonic() - since);
}
