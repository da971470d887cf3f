// The end of the servers: waits for answers that are under way, for so long and no longer.
import type { Clock } from "../core/world.ts";
import type { AnyServer } from "./doors.ts";

const STEP_MS = 20;

/** Whether every connection ended within `ms`. Kept-alive ones are closed as they fall idle. */
export async function drain(
  servers: readonly AnyServer[],
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
