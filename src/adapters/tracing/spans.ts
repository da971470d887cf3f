// Live spans by call: a turn's requests and tools lie in it, what a command asks for lies in the command.
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Context, type Span, type Tracer } from "@opentelemetry/api";
import type { AuditCall } from "../../core/audit.ts";
import type { Tracing } from "../../core/tracing.ts";
import { begun, ended, errorType, operationOf, spanName } from "./attributes.ts";

/** More calls than ever run at once; beyond that they are not told. */
const LIVE_MAX = 10_000;

/** Requests of one session come one after another, so this names one turn at a time. */
const turnKey = ({ request = "", agent, session }: AuditCall): string | undefined =>
  session === undefined ? undefined : `${request}\n${agent}\n${session}`;

export function createSpans(tracer: Tracer): Pick<Tracing, "begin" | "end"> {
  const calls = new Map<string, Span>();
  const turns = new Map<string, Span>();

  const parentOf = (row: AuditCall): Context => {
    const key = turnKey(row);
    const parent = (row.parent === undefined ? undefined : calls.get(row.parent)) ?? (key === undefined ? undefined : turns.get(key));
    return parent === undefined ? ROOT_CONTEXT : trace.setSpan(ROOT_CONTEXT, parent);
  };
  return {
    begin(call, row) {
      const operation = operationOf(row);
      if (operation === undefined || calls.size >= LIVE_MAX || calls.has(call)) return;
      const kind = operation === "chat" ? SpanKind.CLIENT : SpanKind.INTERNAL;
      const span = tracer.startSpan(spanName(operation, row), { kind, attributes: begun(operation, call, row) }, parentOf(row));
      calls.set(call, span);
      const key = turnKey(row);
      if (operation === "invoke_agent" && key !== undefined) turns.set(key, span);
    },
    end(call, row, outcome) {
      const operation = operationOf(row);
      const span = calls.get(call);
      if (operation === undefined || span === undefined) return;
      calls.delete(call);
      const key = turnKey(row);
      if (key !== undefined && turns.get(key) === span) turns.delete(key);
      span.setAttributes(ended(operation, outcome));
      if (errorType(outcome) !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}
