// How a number is taken: a value and its floor measured turn about, medians of many turns, after turns that do not count.
import { type ChildProcess, spawn } from "node:child_process";

/** One line of the table. */
export interface Line {
  readonly line: string;
  readonly unit: "ms" | "us" | "MiB" | "KiB" | "MiB/s" | "commands/s" | "writes" | "scripts" | "requests/s" | "x";
  readonly value: number;
  /** Measured in the same run; absent where the limit is an absolute number. */
  readonly floor?: number;
  /** Of value and floor; the value itself where there is no floor. */
  readonly ratio: number;
  readonly limit: number;
  /** The value must reach the limit, not keep below it. */
  readonly least?: true;
  readonly met: boolean;
  readonly note?: string;
}

export interface Pair {
  /** Median of the turns. */
  readonly value: number;
  readonly floor: number;
  /** Median of the ratios of neighbours: what slows the machine down for a while slows both of a pair. */
  readonly ratio: number;
  /** Of the two lower quartiles: what it would be on a quieter machine. */
  readonly quiet: number;
  readonly turns: number;
}

const lowerQuartile = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 2] ?? Number.NaN;

export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Milliseconds that `run` took. */
export async function timed(run: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await run();
  return performance.now() - begun;
}

/** Measures both `turns` times, now the one first and now the other, after `warmUp` turns that are thrown away. */
export async function interleaved(
  how: { readonly turns: number; readonly warmUp: number },
  value: () => Promise<number>,
  floor: () => Promise<number>,
): Promise<Pair> {
  const values: number[] = [];
  const floors: number[] = [];
  for (let turn = -how.warmUp; turn < how.turns; turn++) {
    const valueFirst = turn % 2 === 0;
    const early = valueFirst ? await value() : undefined;
    const below = await floor();
    const above = early ?? (await value());
    if (turn < 0) continue;
    values.push(above);
    floors.push(below);
  }
  const ratios = values.map((each, i) => each / (floors[i] ?? Number.NaN));
  const quiet = lowerQuartile(values) / lowerQuartile(floors);
  return { value: median(values), floor: median(floors), ratio: median(ratios), quiet, turns: how.turns };
}

interface Told {
  readonly line: string;
  readonly unit: Line["unit"];
  readonly limit: number;
  /** Multiplies value and floor, for another unit than the measured one. */
  readonly scale?: number;
  readonly note?: string;
}

/** A line whose value may be at most `limit` times its floor. */
export function atMost(told: Told, pair: Pair): Line {
  const { line, unit, limit, scale = 1 } = told;
  const note = [`${pair.turns} turns, ${pair.quiet.toFixed(2)}x in the quiet quarter`, told.note]
    .filter((part) => part !== undefined)
    .join("; ");
  const met = pair.ratio <= limit;
  return { line, unit, value: pair.value * scale, floor: pair.floor * scale, ratio: pair.ratio, limit, met, note };
}

/** A line whose value itself may be at most `limit`. */
export const within = (told: Told, value: number): Line => ({
  line: told.line,
  unit: told.unit,
  value,
  ratio: value,
  limit: told.limit,
  met: value <= told.limit,
  ...(told.note === undefined ? {} : { note: told.note }),
});

/** A line whose value must be at least `limit`. */
export const atLeast = (told: Told, value: number): Line => ({ ...within(told, value), least: true, met: value >= told.limit });

/** Runs a program with its output thrown away. Rejects when it does not end with 0. */
export function runProgram(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<void> {
  return new Promise((done, fail) => {
    const child: ChildProcess = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout?.resume();
    let said = "";
    child.stderr?.on("data", (part: Buffer) => (said = (said + part.toString()).slice(-2000)));
    child.on("error", fail);
    child.on("close", (code, signal) => {
      if (code === 0) done();
      else fail(new Error(`${command} ${args.join(" ")}: ${code ?? signal}: ${said}`));
    });
  });
}
