// Counts what passes through an audit chain: every call, request and turn has its row there, whichever door it came through.
import type { Audit, AuditCall, AuditOutcome } from "../../core/audit.ts";
import { isCoreTool } from "../../core/call.ts";
import type { Metrics } from "../../core/metrics.ts";

type Counter = Pick<Metrics, "count" | "time">;

/** The same chain, counted. A row that could not be written is not counted. */
export function metered<A extends Audit>(chain: A, name: string, metrics: Counter): A {
  const row = (phase: string): void => metrics.count("auditRows", { chain: name, phase });
  /** Tools that were allowed once; others' names may be anybody's. */
  const tools = new Set<string>();
  return {
    ...chain,
    async begin(call: string, about: AuditCall) {
      await chain.begin(call, about);
      row("begin");
    },
    async end(call: string, about: AuditCall, outcome: AuditOutcome) {
      ended(metrics, about, outcome);
      if (isTool(about)) tools.add(about.tool);
      await chain.end(call, about, outcome);
      row("end");
    },
    async denied(call: string, about: AuditCall, error: string) {
      if (isTool(about)) metrics.count("toolCalls", { tool: toolName(about, tools), outcome: "denied" });
      if (about.type === "llm") metrics.count("llmRequests", { provider: "none", model: "none", outcome: "denied" });
      if (about.type === "turn") metrics.count("turns", { outcome: "denied" });
      await chain.denied(call, about, error);
      row("denied");
    },
    async note(call: string, about: AuditCall, outcome?: Partial<AuditOutcome>) {
      await chain.note(call, about, outcome);
      row("note");
    },
  };
}

const isTool = ({ type }: AuditCall): boolean => type === "core_tool" || type === "tool";
const toolName = ({ tool }: AuditCall, known: ReadonlySet<string>): string => (isCoreTool(tool) || known.has(tool) ? tool : "other");

function ended(metrics: Counter, about: AuditCall, outcome: AuditOutcome): void {
  const result = outcome.outcome ?? (outcome.exitCode === 0 ? "ok" : "failed");
  const seconds = outcome.durationMs / 1000;
  if (about.type === "llm") asked(metrics, about, { outcome, result, seconds });
  else if (about.type === "turn") {
    metrics.count("turns", { outcome: result });
    metrics.time("turnDuration", {}, seconds);
  } else if (isTool(about)) {
    metrics.count("toolCalls", { tool: about.tool, outcome: result });
    metrics.time("toolDuration", { tool: about.tool }, seconds);
  }
}

interface Ended {
  readonly outcome: AuditOutcome;
  readonly result: string;
  readonly seconds: number;
}

/** The row's tool is PROVIDER/MODEL. */
function asked(metrics: Counter, about: AuditCall, { outcome, result, seconds }: Ended): void {
  const provider = about.tool.split("/", 1)[0] ?? "";
  const model = about.tool.slice(provider.length + 1);
  const usage = outcome.usage ?? {};
  metrics.count("llmRequests", { provider, model, outcome: result });
  const kinds = [
    ["input", "input"],
    ["output", "output"],
    ["cacheRead", "cache_read"],
    ["cacheWrite", "cache_write"],
  ] as const;
  for (const [key, kind] of kinds) metrics.count("llmTokens", { provider, model, kind }, usage[key] ?? 0);
  metrics.count("llmUsd", { provider, model }, usage["costUsd"] ?? 0);
  metrics.time("llmDuration", { provider, model }, seconds);
  if (usage["firstMs"] !== undefined) metrics.time("llmFirstToken", { provider, model }, usage["firstMs"] / 1000);
  if (usage["waitMs"] !== undefined) metrics.time("llmWait", { provider }, usage["waitMs"] / 1000);
}
