// Who asks and through which door: what requests carry from the API to whatever decides and records.
import type { Principal } from "./call.ts";

/** The unix socket is guarded by its file mode; `tcp` and `kube` take bearer tokens; `source` is a folder that the gateway applies. */
export type Door = "socket" | "tcp" | "kube" | "source";

export interface By {
  readonly principal: Principal;
  readonly door: Door;
  /** Id of the request, from the edge to the records. */
  readonly request?: string;
}

/** As records name it: the key where one was used, else what it is. */
export const principalName = (principal: Principal): string =>
  principal.kind === "source"
    ? `source/${principal.name}`
    : "key" in principal && principal.key !== undefined
      ? `key/${principal.key}`
      : principal.kind;

/** Whether the principal may have to do with an agent, named NAME or NS.NAME. Only callers are bound to some. */
export const inScope = (principal: Principal, agent: string): boolean =>
  principal.kind !== "caller" || principal.agents.includes("*") || principal.agents.includes(agent);
