// The access log: a row for each request that was refused, changes or runs something, or came by a key. Never the values of a query.
import type { Audit } from "../core/audit.ts";
import type { Clock, Log, Random } from "../core/world.ts";
import { principalName, type By } from "../core/who.ts";
import type { Door } from "./gate.ts";

export interface Visit {
  readonly method: string;
  readonly url: string;
  readonly door: Door;
  readonly request?: string;
  readonly by?: By;
  readonly status: number;
  readonly ms: number;
}

export interface AccessLog {
  note(visit: Visit): void;
}

/** Refusals of nobody in particular: so many at once, then one a second; the rest is counted in the next row. */
const BURST = 100;
const REFILL_MS = 1_000;
const PATH_MAX = 512;

export function createAccess(deps: {
  readonly chain: Audit;
  readonly clock: Clock;
  readonly random: Pick<Random, "uuid">;
  readonly log: Log;
}): AccessLog {
  const { chain, clock, random, log } = deps;
  let room = BURST;
  let filledAt = clock.monotonic();
  let untold = 0;
  let failed = false;

  const fits = (): boolean => {
    const more = Math.floor((clock.monotonic() - filledAt) / REFILL_MS);
    if (more > 0) {
      room = Math.min(BURST, room + more);
      filledAt += more * REFILL_MS;
    }
    if (room === 0) {
      untold += 1;
      return false;
    }
    room -= 1;
    return true;
  };
  const write = (visit: Visit, left: number): void => {
    const refused = visit.status >= 400;
    const row = {
      agent: "",
      type: "access" as const,
      tool: visit.method,
      args: [pathOf(visit.url), ...(left > 0 ? [`${left} more refusals before this one were not written`] : [])],
      decision: refused && [401, 403, 405, 421, 429].includes(visit.status) ? ("denied" as const) : ("allowed" as const),
      target: "gateway" as const,
      ...(visit.by === undefined ? {} : { principal: principalName(visit.by.principal) }),
      door: visit.door,
      ...(visit.request === undefined ? {} : { request: visit.request }),
    };
    const outcome = { durationMs: Math.round(visit.ms), exitCode: refused ? 1 : 0, outputBytes: 0, status: visit.status };
    chain.end(random.uuid(), row, outcome).then(
      () => void (failed = false),
      (error: unknown) => {
        if (!failed) log.error("the access log cannot be written", { error: String(error) });
        failed = true;
      },
    );
  };
  return {
    note(visit) {
      const keyed = visit.by !== undefined && "key" in visit.by.principal && visit.by.principal.key !== undefined;
      const refused = visit.status >= 400 && visit.status < 500 && visit.status !== 404;
      if (visit.method === "GET" && !refused && !keyed && !visit.url.split("?", 1)[0]?.endsWith("/exec")) return;
      if (visit.by === undefined && !fits()) return;
      const left = visit.by === undefined ? untold : 0;
      if (left > 0) untold = 0;
      write(visit, left);
    },
  };
}

/** Names of a query's fields show what was asked; their values may be anything. */
function pathOf(url: string): string {
  const [path = "", query] = url.slice(0, 4 * PATH_MAX).split("?", 2);
  const names = query === undefined ? "" : `?${[...new Set(query.split("&").map((part) => part.split("=", 1)[0]))].join("&")}`;
  return `${path}${names}`.slice(0, PATH_MAX);
}
