// What runs for each key at this moment, so that a key that is revoked ends with what it began.
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

export type Ending = ServerResponse | Duplex;

export interface Live {
  /** Until it closes. */
  hold(key: string, ending: Ending): void;
  /** Cuts all of a key's but the one that asks for it: whoever serves them hears that the client has left. */
  cut(key: string, but: Ending): void;
}

export function createLive(): Live {
  const held = new Map<string, Set<Ending>>();
  return {
    hold(key, ending) {
      const all = held.get(key) ?? new Set();
      held.set(key, all.add(ending));
      ending.once("close", () => {
        all.delete(ending);
        if (all.size === 0 && held.get(key) === all) held.delete(key);
      });
    },
    cut(key, but) {
      for (const ending of held.get(key) ?? []) if (ending !== but) ending.destroy();
    },
  };
}
