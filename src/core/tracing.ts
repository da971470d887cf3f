// What a watcher elsewhere may be told of the gateway's work: spans of turns, LLM requests and tool calls. They say who, what and how long, never what was said.
import type { AuditCall, AuditOutcome } from "./audit.ts";

/** Never throws and is never waited for: what cannot be told is dropped. */
export interface Tracing {
  begin(call: string, row: AuditCall): void;
  /** Harmless for a call that was not begun. */
  end(call: string, row: AuditCall, outcome: Partial<AuditOutcome>): void;
  /** Sends what is left; bounded. */
  close(): Promise<void>;
}

/** Nobody watches. */
export const NO_TRACING: Tracing = { begin: () => undefined, end: () => undefined, close: () => Promise.resolve() };
