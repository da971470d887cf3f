// beige egress: where an agent's sandbox went, and what it would be told about a host.
import type { AuditRow } from "../../core/audit.ts";
import type { EgressVerdict } from "../../core/egress.ts";
import { showBytes } from "../../core/quantity.ts";
import { positive } from "../duration.ts";
import { on, type Run, word } from "../flags.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { whenText } from "../render/values.ts";

const HEADERS = ["TIME", "HOST", "DECISION", "IP", "IN", "OUT", "MS", "WHY"];
const RIGHT = [false, false, false, false, true, true, true, false];

const bytesText = (bytes: number | undefined): string => (bytes === undefined ? "" : showBytes(bytes));

export const log: Run = async ({ client, out, now }, input) => {
  const limit = positive(word(input, "lines") ?? "20", "--lines", 1000);
  const query = new URLSearchParams({ limit: String(limit), ...(on(input, "denied") && { decision: "denied" }) });
  const path = `/api/agents/${encodeURIComponent(input.args[0] ?? "")}/egress?${query.toString()}`;
  const { items } = await client.get<{ readonly items: readonly AuditRow[] }>({ path });
  if (word(input, "output") === "json") {
    await out.write(items.map((row) => `${JSON.stringify(row)}\n`).join(""));
    return 0;
  }
  if (items.length === 0) {
    out.note("no connections");
    return 0;
  }
  const rows = items.map((row) => [
    whenText(out, row.ts, now()),
    oneLine(`${row.host ?? "?"}:${row.port ?? "?"}`),
    oneLine(row.decision),
    oneLine(row.ip ?? ""),
    bytesText(row.bytesIn),
    bytesText(row.bytesOut),
    row.durationMs === undefined ? "" : String(row.durationMs),
    oneLine(row.error ?? ""),
  ]);
  const drawn = drawTable(HEADERS, rows, { right: RIGHT, ...(out.tty && { width: out.columns }) });
  await out.write(`${[out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  return 0;
};

export const test: Run = async ({ client, out }, input) => {
  const [agent = "", target = ""] = input.args;
  const query = new URLSearchParams({ target });
  const verdict = await client.get<EgressVerdict>({ path: `/api/agents/${encodeURIComponent(agent)}/egress/test?${query.toString()}` });
  if (word(input, "output") === "json") {
    await out.write(`${JSON.stringify(verdict, undefined, 2)}\n`);
    return verdict.allowed ? 0 : 1;
  }
  const lines = [
    `${oneLine(verdict.target)}   ${verdict.allowed ? out.paint("green", "allowed") : out.paint("red", "refused")}`,
    ...(verdict.addresses.length === 0 ? [] : [`leads to   ${oneLine(verdict.addresses.join(", "))}`]),
    ...(verdict.secret === undefined ? [] : [`secret     ${oneLine(verdict.secret)}`]),
    ...(verdict.reason === undefined ? [] : [`because    ${oneLine(verdict.reason)}`]),
    ...(verdict.hint === undefined ? [] : [`fix        ${oneLine(verdict.hint)}`]),
  ];
  await out.write(`${lines.join("\n")}\n`);
  return verdict.allowed ? 0 : 1;
};
