// The record of what happened: the rows of the chains and the port that appends them.

export type Decision = "allowed" | "denied";

/** What a call row says, in the words of the log format; arguments are already redacted and capped by the writer. */
export interface AuditCall {
  readonly agent: string;
  readonly type: "core_tool" | "tool" | "llm" | "turn" | "schedule" | "control" | "access" | "egress";
  readonly tool: string;
  readonly args: readonly string[];
  readonly decision: Decision;
  readonly target?: "gateway" | "sandbox" | "provider" | "engine";
  /** Who asked: operator, viewer, agent, schedule, key/NAME. */
  readonly principal?: string;
  /** Through which door: socket, tcp, kube, source. */
  readonly door?: string;
  /** Under which name the fields of an object were written. */
  readonly manager?: string;
  readonly session?: string;
  /** Id of the request that came in at the edge. */
  readonly request?: string;
  /** Call id of the command inside which this call was made. */
  readonly parent?: string;
  readonly model?: string;
  /** Where a connection from inside went, or wanted to. */
  readonly host?: string;
  readonly port?: number;
}

export interface AuditOutcome {
  readonly durationMs: number;
  readonly exitCode: number;
  readonly outputBytes: number;
  readonly error?: string;
  /** Of a request: what HTTP was answered. */
  readonly status?: number;
  readonly outcome?: "ok" | "failed" | "timeout" | "cancelled" | "oom" | "lost" | "unknown";
  /** It went on behind its answer, and has ended now. */
  readonly background?: true;
  readonly model?: string;
  readonly usage?: Readonly<Record<string, number>>;
  /** The address that a connection went to, and what went over it, seen from inside. */
  readonly ip?: string;
  readonly bytesIn?: number;
  readonly bytesOut?: number;
}

/** Of a call whose gateway ended first. */
export const UNKNOWN: AuditOutcome = {
  durationMs: 0,
  exitCode: 255,
  outputBytes: 0,
  outcome: "unknown",
  error: "the gateway ended before the outcome was known",
};

/** Calls that the process before this one left open, and that may go on. */
export interface LeftCalls {
  /** The row that it began with; whoever takes it writes its end. Undefined when it has one, or was taken. */
  take(call: string): AuditCall | undefined;
  /** The outcome of those that nobody took is unknown. */
  close(): Promise<void>;
}

/** A row as it stands in the file: one JSON object a line. */
export interface AuditRow extends AuditCall, Partial<AuditOutcome> {
  readonly seq: number;
  /** RFC 3339. */
  readonly ts: string;
  readonly call: string;
  /** `denied` rows stand alone; `begin` is durable before the effect and joined by `call` to its `end`. */
  readonly phase: "begin" | "end" | "denied" | "note";
  readonly prev_hash: string;
  readonly hash: string;
}

export interface OpenCall {
  readonly call: string;
}

/** One hash chain. */
export interface Audit {
  /** Resolves when the row is on the disk. Rejects with `unavailable` when it cannot be: the caller refuses the effect. */
  begin(call: string, row: AuditCall): Promise<void>;
  /** The outcome row repeats the call. Resolves when written; durable with the next flush. */
  end(call: string, row: AuditCall, outcome: AuditOutcome): Promise<void>;
  denied(call: string, row: AuditCall, error: string): Promise<void>;
  /** A row without an effect to wait for. */
  note(call: string, row: AuditCall, outcome?: Partial<AuditOutcome>): Promise<void>;
}
