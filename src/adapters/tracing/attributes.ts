// The words of a span: OpenTelemetry's conventions for generative AI in one version, and what of ours they have no word for. Pure.
import type { AuditCall, AuditOutcome } from "../../core/audit.ts";
import { isCoreTool } from "../../core/call.ts";

/** The conventions that the names below are from. Another version is a change of ours, not of a library. */
export const SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0";

export type Attributes = Readonly<Record<string, string | number>>;
export type Operation = "invoke_agent" | "chat" | "execute_tool";

/** Rows of other types are no spans. */
export function operationOf({ type }: AuditCall): Operation | undefined {
  if (type === "turn") return "invoke_agent";
  if (type === "llm") return "chat";
  return type === "core_tool" || type === "tool" ? "execute_tool" : undefined;
}

const given = (attributes: Readonly<Record<string, string | number | undefined>>): Attributes =>
  Object.fromEntries(
    Object.entries(attributes).filter((each): each is [string, string | number] => each[1] !== undefined && each[1] !== ""),
  );

/** Provider and model of a row, whose tool is PROVIDER/MODEL. */
function modelOf({ tool }: AuditCall): { readonly provider: string; readonly model: string } {
  const slash = tool.indexOf("/");
  return { provider: slash < 0 ? tool : tool.slice(0, slash), model: slash < 0 ? "" : tool.slice(slash + 1) };
}

export function spanName(operation: Operation, row: AuditCall): string {
  const of = operation === "invoke_agent" ? row.agent : operation === "chat" ? modelOf(row).model : row.tool;
  return of === "" ? operation : `${operation} ${of}`;
}

export function begun(operation: Operation, call: string, row: AuditCall): Attributes {
  const { provider, model } = modelOf(row);
  return given({
    "gen_ai.operation.name": operation,
    "gen_ai.agent.name": row.agent,
    "gen_ai.conversation.id": row.session,
    ...(operation === "chat" && { "gen_ai.provider.name": provider, "gen_ai.request.model": model }),
    ...(operation === "invoke_agent" && { "gen_ai.provider.name": "beige" }),
    ...(operation === "execute_tool" && {
      "gen_ai.tool.name": row.tool,
      "gen_ai.tool.call.id": call,
      "gen_ai.tool.type": isCoreTool(row.tool) ? "function" : "extension",
    }),
    "beige.call_id": call,
    "beige.request_id": row.request,
    "beige.principal": row.principal,
  });
}

export function ended(operation: Operation, outcome: Partial<AuditOutcome>): Attributes {
  const usage = outcome.usage ?? {};
  const told = operation === "execute_tool" ? undefined : outcome.usage;
  return given({
    "gen_ai.response.model": outcome.model,
    ...(told !== undefined && {
      "gen_ai.usage.input_tokens": (usage["input"] ?? 0) + (usage["cacheRead"] ?? 0) + (usage["cacheWrite"] ?? 0),
      "gen_ai.usage.output_tokens": usage["output"] ?? 0,
      "beige.usage.cache_read_tokens": usage["cacheRead"],
      "beige.usage.cache_write_tokens": usage["cacheWrite"],
      "beige.usage.cost_usd": usage["costUsd"],
      "beige.usage.estimated": usage["estimated"],
      "beige.wait_ms": usage["waitMs"],
      "beige.first_token_ms": usage["firstMs"],
    }),
    ...(operation === "execute_tool" && { "beige.exit_code": outcome.exitCode }),
    "error.type": errorType(outcome),
  });
}

/** The class of what went wrong: its words may hold what was said. A tool that ran to its end has not failed as a span. */
export function errorType(outcome: Partial<AuditOutcome>): string | undefined {
  const status = outcome.usage?.["status"];
  if (status !== undefined) return String(status);
  if (outcome.outcome !== undefined && outcome.outcome !== "ok") return outcome.outcome;
  return outcome.outcome === undefined && outcome.error !== undefined ? "denied" : undefined;
}
