// beige logs: the gateway's log lines, all or those of one object; read from the file, so it also works without a gateway.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds, positive } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { lastLines, newLines } from "../follow.ts";
import { oneLine } from "../output.ts";
import { valueText, whenText } from "../render/values.ts";

type Row = Readonly<Record<string, unknown>>;
const QUIET = new Set(["level", "time", "pid", "msg", "hostname"]);

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const levelOf = (row: Row): string => textOf(row["level"]) || "info";

function parse(line: string): Row | undefined {
  try {
    const value = JSON.parse(line) as unknown;
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Row) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a row speaks of an object: in a field that names it, in any of the ways that objects are written. */
export function speaksOf(row: Row, about: string): boolean {
  const [kind, rest] = about.includes("/")
    ? [about.slice(0, about.indexOf("/")).toLowerCase(), about.slice(about.indexOf("/") + 1)]
    : ["agent", about];
  const [namespace, name] = rest.includes(".") ? [rest.slice(0, rest.indexOf(".")), rest.slice(rest.indexOf(".") + 1)] : ["default", rest];
  const spoken = new Set([
    rest,
    `${namespace}.${name}`,
    `${kind}/${rest}`,
    `${kind}/${namespace}/${name}`,
    `${kind}/${namespace}.${name}`,
    ...(namespace === "default" ? [name] : []),
  ]);
  const fits = (key: string, value: unknown): boolean => {
    if (typeof value === "object" && value !== null) {
      const ref = value as { kind?: unknown; namespace?: unknown; name?: unknown };
      return (
        ref.name === name &&
        (ref.kind === undefined || textOf(ref.kind).toLowerCase() === kind) &&
        (ref.namespace === undefined || ref.namespace === "" || ref.namespace === namespace)
      );
    }
    const lower = typeof value === "string" ? value.toLowerCase() : "";
    return spoken.has(lower) && (key === kind || key === "ref" || key === "key" || key === "object" || lower.includes("/"));
  };
  return Object.entries(row).some(([key, value]) => fits(key, value));
}

function render(context: Context, row: Row): string {
  const time = whenText(context.out, textOf(row["time"]), context.now());
  const level = levelOf(row);
  const paint = level === "error" ? "red" : level === "warn" ? "yellow" : "dim";
  const fields = Object.entries(row)
    .filter(([key]) => !QUIET.has(key))
    .map(([key, value]) => `${oneLine(key)}=${valueText(value, 200)}`);
  return `${time.padEnd(4)} ${context.out.paint(paint, level.padEnd(5))} ${oneLine(textOf(row["msg"]))}${fields.length > 0 ? `  ${context.out.paint("dim", fields.join(" "))}` : ""}\n`;
}

const LEVELS = ["debug", "info", "warn", "error"];

function filterOf(context: Context, input: Input): (row: Row) => boolean {
  const about = input.args[0];
  const since = word(input, "since");
  const from = since === undefined ? undefined : context.now() - milliseconds(since, "--since");
  const least = LEVELS.indexOf(word(input, "level") ?? "debug");
  return (row) =>
    (about === undefined || speaksOf(row, about)) &&
    (from === undefined || Date.parse(textOf(row["time"])) >= from) &&
    LEVELS.indexOf(levelOf(row)) >= least;
}

export const run: Run = async (context, input) => {
  const path = join(context.home, "logs/gateway.log");
  if (!existsSync(path) && !on(input, "follow"))
    throw new BeigeError("not_found", `there is no log at ${path}`, { hint: "beige gateway start" });
  const wanted = filterOf(context, input);
  const json = word(input, "output") === "json";
  const keep = (line: string): boolean => {
    const row = parse(line);
    return row !== undefined && wanted(row);
  };
  const show = (line: string): string => (json ? `${line}\n` : render(context, parse(line) ?? {}));
  const { lines, end } = await lastLines(path, positive(word(input, "tail") ?? "200", "--tail", 1_000_000), keep);
  await context.out.write(lines.map(show).join(""));
  if (lines.length === 0 && !on(input, "follow")) context.out.note(`no line of ${path} fits`);
  if (on(input, "follow"))
    for await (const line of newLines(path, end, context.signal)) if (keep(line)) await context.out.write(show(line));
  return 0;
};
