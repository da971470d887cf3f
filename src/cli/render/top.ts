// The table of `beige top`: one row an agent, busiest first. Pure.
import { oneLine, type Output } from "../output.ts";
import { costText, tokensText } from "./spend.ts";
import { type Drawn, drawTable } from "./table.ts";

export interface TopRow {
  readonly agent: string;
  /** "ready", or why not. */
  readonly state: string;
  readonly sessions: number;
  /** Turns that run. */
  readonly turns: number;
  /** LLM requests that run. */
  readonly requests: number;
  readonly requestsPerMinute: number;
  /** Since midnight, UTC. */
  readonly tokens: number;
  readonly usd: number;
  /** Requests to models without a price. */
  readonly unpriced: number;
  /** Of one processor; absent where it cannot be read. */
  readonly cpuPercent?: number;
  readonly memoryBytes?: number;
}

export interface Slots {
  readonly provider: string;
  readonly used: number;
  readonly waiting: number;
  /** -1: no limit. */
  readonly limit: number;
}

export interface Top {
  readonly rows: readonly TopRow[];
  readonly slots: readonly Slots[];
}

const HEADERS = ["AGENT", "STATE", "SESSIONS", "TURNS", "LLM", "REQ/MIN", "TOKENS", "COST", "CPU", "MEMORY"];
/** What a narrow terminal does without, first to last. */
const SPARE = ["SESSIONS", "LLM", "REQ/MIN", "TURNS", "CPU", "MEMORY"];

export function bytesText(bytes: number): string {
  if (bytes < 1024 * 1024) return `${Math.ceil(bytes / 1024)}Ki`;
  return bytes < 1024 ** 3 ? `${Math.round(bytes / 1024 ** 2)}Mi` : `${(bytes / 1024 ** 3).toFixed(1)}Gi`;
}

const cells = (row: TopRow): readonly string[] => [
  oneLine(row.agent),
  oneLine(row.state),
  String(row.sessions),
  String(row.turns),
  String(row.requests),
  String(row.requestsPerMinute),
  tokensText(row.tokens),
  costText(row.usd, row.unpriced),
  row.cpuPercent === undefined ? "-" : `${row.cpuPercent.toFixed(1)}%`,
  row.memoryBytes === undefined ? "-" : bytesText(row.memoryBytes),
];

/** With as many columns as the terminal holds. */
function drawFitting(out: Output, rows: readonly (readonly string[])[]): Drawn {
  const draw = (shown: readonly number[], width?: number): Drawn =>
    drawTable(
      shown.map((at) => HEADERS[at] ?? ""),
      rows.map((row) => shown.map((at) => row[at] ?? "")),
      { right: shown.map((at) => at > 1), ...(width !== undefined && { width }) },
    );
  let shown = HEADERS.map((_, at) => at);
  if (!out.tty) return draw(shown);
  for (const spare of SPARE) {
    const { header, rows: lines } = draw(shown);
    if ([header, ...lines].every((each) => each.length <= out.columns)) break;
    shown = shown.filter((at) => HEADERS[at] !== spare);
  }
  return draw(shown, out.columns);
}

const busy = (row: TopRow): number => row.turns + row.requests;

const slotText = ({ provider, used, waiting, limit }: Slots): string =>
  `${oneLine(provider)} ${used}${limit < 0 ? "" : `/${limit}`}${waiting > 0 ? `, ${waiting} wait` : ""}`;

export function drawTop(out: Output, top: Top): readonly string[] {
  const rows = top.rows.toSorted((a, b) => busy(b) - busy(a) || b.requestsPerMinute - a.requestsPerMinute || (a.agent < b.agent ? -1 : 1));
  const drawn = drawFitting(out, rows.map(cells));
  const slots = top.slots.filter(({ used, waiting, limit }) => used + waiting > 0 || limit > 0);
  return [
    ...(slots.length === 0 ? [] : [`requests at providers: ${slots.map(slotText).join("; ")}`]),
    out.paint("dim", drawn.header),
    ...drawn.rows,
  ];
}
