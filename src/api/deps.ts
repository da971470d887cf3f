// What the API is given: the ports behind its routes. It decides nothing itself.
import type { AuditRow } from "../core/audit.ts";
import type { Audit } from "../core/audit.ts";
import type { CallTool } from "../core/call.ts";
import type { Control } from "../core/control.ts";
import type { Accounts } from "../core/ledger.ts";
import type { Metrics } from "../core/metrics.ts";
import type { RunRoad } from "../core/road.ts";
import type { EgressDesk } from "../core/egress.ts";
import type { Keys } from "../core/keys.ts";
import type { SnapshotDesk } from "../core/snapshot.ts";
import type { SandboxCheck } from "../core/sandbox.ts";
import type { SessionDesk } from "../core/session.ts";
import type { RunTurn } from "../core/turn.ts";
import type { Clock, Directory, Log, Providers, Random } from "../core/world.ts";
import type { Limits } from "./limits.ts";
import type { Live } from "./live.ts";

export interface AuditFilter {
  readonly agent?: string;
  readonly tool?: string;
  readonly decision?: string;
  readonly session?: string;
  readonly call?: string;
  readonly request?: string;
  readonly type?: string;
}

/** Reads a chain back; the last `n` rows that match, oldest first. */
export interface AuditReader {
  tail(n: number, filter: AuditFilter): Promise<readonly AuditRow[]>;
}

export interface Health {
  /** Whether everything that the gateway needs answers. */
  readonly ready: boolean;
  /** "ok", or why the container engine does not answer. */
  readonly engine: string;
  readonly [more: string]: unknown;
}

export interface ApiDeps {
  readonly control: Control;
  readonly directory: Directory;
  readonly call: CallTool;
  readonly turn: RunTurn;
  /** What may be done with sessions besides sending a message. */
  readonly sessions?: SessionDesk;
  /** The one road of every LLM request. */
  readonly road?: RunRoad;
  /** Bearer token of the operator on the TCP door. */
  readonly token: string;
  readonly version: string;
  /** Absolute path of BEIGE_HOME, for hints. */
  readonly home: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly health: () => Health;
  readonly audit?: AuditReader;
  /** Bearer tokens besides the operator's; none when absent. */
  readonly keys?: Keys;
  /** Chain of the access log; nothing is logged when absent. */
  readonly access?: { readonly chain: Audit; readonly random: Pick<Random, "uuid"> };
  /** What was spent. */
  readonly accounts?: Accounts;
  /** The judgement on where an agent's sandbox may go. */
  readonly egress?: EgressDesk;
  /** Copies of agents' workspaces. */
  readonly snapshots?: SnapshotDesk;
  /** Rules of containment held against the container that serves an agent, by the agent's uid. */
  readonly checks?: (uid: string, signal: AbortSignal) => Promise<readonly SandboxCheck[]>;
  readonly metrics?: Pick<Metrics, "text">;
  /** What is remembered of each provider's models. */
  readonly providers?: Pick<Providers, "seen">;
  readonly limits?: Partial<Limits>;
}

/** What routes get besides: the limits in force, and the signals of a closing gateway. */
export interface RouteDeps extends Omit<ApiDeps, "limits"> {
  readonly limits: Limits;
  readonly live: Live;
  /** Aborts as soon as the gateway closes: for streams that lose nothing by it. */
  readonly closing: AbortSignal;
  /** Aborts when the grace of a closing gateway is over: for turns and calls. */
  readonly stopped: AbortSignal;
}
