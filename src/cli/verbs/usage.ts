// beige usage: what was spent in a time, by agent, model, provider, key or session, and how the budgets stand.
import type { BudgetLine, UsageLine, UsageReport } from "../../core/ledger.ts";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Input, type Run, word } from "../flags.ts";
import { oneLine, type Output } from "../output.ts";
import { budgetText, costText, tokensText } from "../render/spend.ts";
import { drawTable } from "../render/table.ts";

const YEAR_MS = 366 * 86_400_000;

/** As `--since 7d`, or a time. */
function timeOf(context: Context, input: Input, name: "since" | "until"): number | undefined {
  const text = word(input, name);
  if (text === undefined) return undefined;
  if (/^\d{4}-/.test(text)) {
    const at = Date.parse(text);
    if (Number.isFinite(at)) return at;
    throw new BeigeError("invalid", `--${name} "${text}" is no time`, { hint: `--${name} 2026-11-01, or 7d` });
  }
  return context.now() - milliseconds(text, `--${name}`, YEAR_MS);
}

const HEADERS = ["REQUESTS", "INPUT", "OUTPUT", "CACHED", "COST"];
const RIGHT = [false, true, true, true, true, true];

function rowOf(line: UsageLine): readonly string[] {
  return [
    oneLine(line.name),
    String(line.requests),
    tokensText(line.input),
    tokensText(line.output),
    tokensText(line.cacheRead + line.cacheWrite),
    costText(line.usd, line.unpriced),
  ];
}

function budgetTable(out: Output, budgets: readonly BudgetLine[]): readonly string[] {
  if (budgets.length === 0) return [];
  const rows = budgets.map((line) => [`${line.scope.kind}/${oneLine(line.scope.name)}`, budgetText(line), line.resetsAt]);
  const drawn = drawTable(["BUDGET", "SPENT", "RESETS"], rows, out.tty ? { width: out.columns } : {});
  return ["", out.paint("dim", drawn.header), ...drawn.rows];
}

export const run: Run = async (context, input) => {
  const by = word(input, "by") ?? "agent";
  const since = timeOf(context, input, "since") ?? context.now() - milliseconds("7d", "--since", YEAR_MS);
  const until = timeOf(context, input, "until");
  if (until !== undefined && until <= since) throw new BeigeError("invalid", "--until is not after --since");
  const query = new URLSearchParams({ by, since: String(since), ...(until !== undefined && { until: String(until) }) });
  const report = await context.client.get<UsageReport & { readonly budgets: readonly BudgetLine[] }>({
    path: `/api/usage?${query.toString()}`,
  });
  const { out } = context;
  if (word(input, "output") === "json") {
    await out.write(`${JSON.stringify(report, undefined, 2)}\n`);
    return 0;
  }
  if (report.items.length === 0) out.note(`nothing was spent since ${report.since}`);
  else {
    const rows = [...report.items, ...(report.items.length > 1 ? [report.total] : [])].map(rowOf);
    const drawn = drawTable([by.toUpperCase(), ...HEADERS], rows, { right: RIGHT, ...(out.tty && { width: out.columns }) });
    await out.write(`${[out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
    if (report.total.unpriced > 0)
      out.note(`${report.total.unpriced} requests went to models without a price: set spec.models[].cost of the Provider`);
  }
  await out.write(
    budgetTable(out, report.budgets)
      .map((line) => `${line}\n`)
      .join(""),
  );
  return 0;
};
