// beige audit: the last rows of a chain, whether it is whole, and an anchor to hold it against later. Read from the files.
import { createReadStream, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { AuditRow } from "../../core/audit.ts";
import { chainSegments, parseAnchor, printAnchor, verifyChain, type Verified } from "../../core/chain.ts";
import { BeigeError } from "../../core/errors.ts";
import { positive } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { lastLines, newLines } from "../follow.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { valueText, whenText } from "../render/values.ts";

const HEADERS = ["TIME", "AGENT", "TOOL", "DECISION", "OUTCOME", "MS", "ARGS"];
const TRIES = 4;
const baseOf = (input: Input): string => `${word(input, "chain") ?? "audit"}.jsonl`;

function segments(context: Context, input: Input): readonly string[] {
  const folder = join(context.home, "logs");
  const base = baseOf(input);
  let names: readonly string[] = [];
  try {
    names = chainSegments(readdirSync(folder), base);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  if (names.length === 0)
    throw new BeigeError("not_found", `there is no chain ${base} in ${folder}`, {
      hint: "it begins with the first call; --home names another home",
    });
  return names.map((name) => join(folder, name));
}

function rowOf(line: string): AuditRow | undefined {
  try {
    const row = JSON.parse(line) as AuditRow;
    return typeof row === "object" && row !== null && typeof row.tool === "string" ? row : undefined;
  } catch {
    return undefined;
  }
}

/** An outcome repeats its call: the row that announced it is left out unless all are wanted. */
function filterOf(input: Input): (row: AuditRow) => boolean {
  const agent = word(input, "agent");
  const tool = word(input, "tool");
  const request = word(input, "request");
  return (row) =>
    (on(input, "all") || row.phase !== "begin") &&
    (!on(input, "denied") || row.decision === "denied") &&
    (agent === undefined || row.agent === agent || row.agent === `default.${agent}`) &&
    (tool === undefined || row.tool === tool) &&
    (request === undefined || row.request === request);
}

const outcomeOf = (row: AuditRow): string =>
  row.phase === "begin"
    ? "begun"
    : (row.outcome ?? (row.exitCode === undefined ? row.phase : row.exitCode === 0 ? "ok" : `exit ${row.exitCode}`));

const cells = (context: Context, row: AuditRow): readonly string[] => [
  whenText(context.out, row.ts, context.now()),
  oneLine(row.agent || "-"),
  oneLine(row.tool),
  oneLine(row.decision),
  outcomeOf(row),
  row.durationMs === undefined ? "" : String(Math.round(row.durationMs)),
  saidOf(row),
];

/** Prompts and requests to models have no arguments. */
function saidOf(row: AuditRow): string {
  const args = (row.args ?? []).join(" ");
  const error = row.error === undefined ? "" : oneLine(row.error);
  return [args === "" ? "" : valueText(args, 200), error].filter(Boolean).join("   ");
}

/** From the newest segment backwards, until there are enough. */
async function lastOf(
  paths: readonly string[],
  n: number,
  keep: (line: string) => boolean,
): Promise<{ readonly lines: readonly string[]; readonly end: number }> {
  const [newest, ...older] = paths.toReversed();
  const { lines, end } = await lastLines(newest ?? "", n, keep);
  const found = [...lines];
  for (const path of older) if (found.length < n) found.unshift(...(await lastLines(path, n - found.length, keep)).lines);
  return { lines: found, end };
}

export const tail: Run = async (context, input) => {
  const paths = segments(context, input);
  const wanted = filterOf(input);
  const keep = (line: string): boolean => {
    const row = rowOf(line);
    return row !== undefined && wanted(row);
  };
  const json = word(input, "output") === "json";
  const { lines, end } = await lastOf(paths, positive(word(input, "lines") ?? "20", "--lines", 1_000_000), keep);
  const rows = lines.map((line) => cells(context, rowOf(line) as AuditRow));
  const fit = context.out.tty ? { width: context.out.columns } : {};
  const drawn = drawTable(HEADERS, rows, fit);
  if (json) await context.out.write(lines.map((line) => `${line}\n`).join(""));
  else if (rows.length > 0) await context.out.write(`${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  else context.out.note("no rows");
  if (!on(input, "follow")) return 0;
  for await (const line of newLines(paths.at(-1) ?? "", end, context.signal)) {
    const row = keep(line) ? rowOf(line) : undefined;
    if (row)
      await context.out.write(
        json ? `${line}\n` : `${drawTable(HEADERS, [cells(context, row)], { ...fit, least: drawn.widths }).rows[0] ?? ""}\n`,
      );
  }
  return 0;
};

async function* bytes(paths: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const path of paths) for await (const part of createReadStream(path, { highWaterMark: 256 * 1024 })) yield part as Uint8Array;
}

export async function verifyFiles(context: Context, input: Input, anchor?: string): Promise<Verified> {
  const parsed = anchor === undefined ? undefined : parseAnchor(anchor);
  if (anchor !== undefined && parsed === undefined)
    throw new BeigeError("invalid", `"${anchor}" is not an anchor`, { hint: "beige audit anchor prints one: SEQ:HASH" });
  for (let tries = 1; ; tries++) {
    const verified = await verifyChain(bytes(segments(context, input)), parsed);
    // A row that is being written looks torn for a moment.
    if (verified.ok || tries === TRIES || !/is torn/.test(verified.problem ?? "")) return verified;
    await pause(50);
  }
}

/** Without --chain, or an anchor, which is of one chain, all of them. */
export const verify: Run = async (context, input) => {
  const first = await verifyOne(context, input);
  if (word(input, "chain") !== undefined || word(input, "anchor") !== undefined || word(input, "output") === "json") return first;
  const folder = join(context.home, "logs");
  let worst = first;
  for (const chain of ["control", "access"]) {
    if (chainSegments(readdirSync(folder), `${chain}.jsonl`).length === 0) continue;
    worst = Math.max(worst, await verifyOne(context, { ...input, flags: { ...input.flags, chain } }));
  }
  return worst;
};

const verifyOne: Run = async (context, input) => {
  const verified = await verifyFiles(context, input, word(input, "anchor"));
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify(verified, undefined, 2)}\n`);
  else if (verified.ok) {
    const open = verified.open > 0 ? `, ${verified.open} calls still open` : "";
    await context.out.write(`${baseOf(input)}: ${verified.rows} rows, one chain${open}; head ${printAnchor(verified.head)}\n`);
  } else context.out.note(`${context.out.paint("red", "error:")} ${baseOf(input)}: ${oneLine(verified.problem ?? "the chain is broken")}`);
  return verified.ok ? 0 : 1;
};

export const anchor: Run = async (context, input) => {
  const verified = await verifyFiles(context, input);
  if (!verified.ok)
    throw new BeigeError("conflict", `no anchor for a broken chain: ${verified.problem ?? ""}`, { hint: "beige audit verify" });
  await context.out.write(`${printAnchor(verified.head)}\n`);
  return 0;
};
