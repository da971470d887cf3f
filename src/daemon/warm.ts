// The warm pool among the parts that it keeps sandboxes with, and its one loop.
import { createPool, type Pool } from "../../controllers/agent/pool.ts";
import { createSeatFolders } from "../adapters/seats.ts";
import type { View } from "../core/kind.ts";
import type { Seats } from "../core/seat.ts";
import type { Outside } from "../core/world.ts";
import type { Foundation } from "./foundation.ts";

export interface WarmPool extends Pool {
  start(): void;
  /** What waits for an agent goes on waiting: the next gateway takes it over. */
  stop(): Promise<void>;
}

export function warmPool(base: Foundation, world: Outside, defaultHome: boolean): WarmPool {
  const { store, host } = base;
  const seats: Seats = store.agents.seats;
  const view = (): View => ({
    now: world.clock.now(),
    store: store.id,
    home: world.home,
    defaultHome,
    get: store.objects.get,
    list: store.objects.list,
    origin: store.objects.origin,
    host: host.policy(),
    seatOf: seats.of,
  });
  const pool = createPool({
    world: { ...world, state: store.agents },
    entries: () => host.policy().warm ?? [],
    view,
    folders: createSeatFolders(),
    exists: (uid) => store.directory.agentByUid(uid) !== undefined,
  });
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  return {
    ...pool,
    start() {
      running = pool.run(stopping.signal).catch((error: unknown) => world.log.error("the warm pool ended", { error: String(error) }));
    },
    async stop() {
      stopping.abort(new Error("the gateway ends"));
      await running;
    },
  };
}
