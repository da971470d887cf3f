// The end of the servers: waits for answers that are under way, for so long and no longer.
import type { Server } from "node:http";
import type { Clock } from "../core/world.ts";

const STEP_MS = 20;

/** Whether every connection ended within `ms`. Kept-alive ones are closed as they fall idle. */
export async function drain(
  servers: readonly Server[],
  closed: Promise<unknown>,
  options: { readonly clock: Clock; readonly ms: number },
): Promise<boolean> {
  const { clock, ms } = options;
  const end = closed.then(() => true);
  for (let waited = 0; waited < ms; waited += STEP_MS) {
    for (const server of servers) server.closeIdleConnections();
    if (await Promise.race([end, clock.sleep(STEP_MS).then(() => false)])) return true;
  }
  return false;
}
