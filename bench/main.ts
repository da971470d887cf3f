// `npm run bench`: every line of the speed table, each against a floor of the same run. `npm run bench -- PART...` takes some.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../test/gateway.ts";
import { auditing } from "./audit.ts";
import { noopApply, version } from "./cli.ts";
import { convergence } from "./convergence.ts";
import { leaving } from "./egress.ts";
import { execution } from "./exec.ts";
import { atEnd, type Fleet, startFleet } from "./fleet.ts";
import { gatewaySpeed } from "./gateway.ts";
import { idle } from "./idle.ts";
import { install } from "./installed.ts";
import type { Line } from "./measure.ts";
import { plane } from "./plane.ts";
import { storing } from "./store.ts";
import { supervising } from "./supervisor.ts";
import { warming } from "./warm.ts";

interface Ground {
  /** Folder of the installed program. */
  readonly program: () => string;
  readonly fleet: () => Promise<Fleet>;
}

const PARTS: Readonly<Record<string, (ground: Ground) => Promise<readonly Line[]>>> = {
  audit: () => auditing(),
  store: ({ program }) => storing(program()),
  convergence: async ({ fleet }) => convergence(await fleet()),
  cli: async ({ program, fleet }) => [await version(program()), ...(await noopApply(await fleet(), program()))],
  exec: async ({ fleet }) => execution(await fleet()),
  supervisor: () => supervising(),
  warm: ({ program }) => warming(program()),
  egress: ({ program }) => leaving(program()),
  idle: async ({ fleet }) => idle(await fleet()),
  plane: ({ program, fleet }) => plane(program(), fleet),
  gateway: ({ program }) => gatewaySpeed(program()),
};

const number = (value: number): string => (value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2));

function row(line: Line): readonly string[] {
  const { unit } = line;
  const floor = line.floor === undefined ? "" : `${number(line.floor)} ${unit}`;
  const ratio = line.floor === undefined ? "" : `${line.ratio.toFixed(2)}x`;
  const limit = `${line.least === true ? ">=" : "<="} ${line.limit}${line.floor === undefined ? ` ${unit}` : "x"}`;
  return [line.line, `${number(line.value)} ${unit}`, floor, ratio, limit, line.met ? "yes" : "NO", line.note ?? ""];
}

function table(lines: readonly Line[]): string {
  const rows = [["line", "value", "floor", "ratio", "limit", "met", "how"], ...lines.map(row)];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0))) ?? [];
  return rows
    .map((cells) =>
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

async function main(wanted: readonly string[]): Promise<void> {
  const unknown = wanted.filter((part) => PARTS[part] === undefined);
  if (unknown.length > 0) throw new Error(`no such part: ${unknown.join(", ")}; there are: ${Object.keys(PARTS).join(", ")}`);
  const began = performance.now();
  let installed: ReturnType<typeof install> | undefined;
  const program = (): string => (installed ??= install()).folder;
  let fleet: Promise<Fleet> | undefined;
  let cleaning: Promise<void> | undefined;
  const clean = (): Promise<void> =>
    (cleaning ??= (async () => {
      for (const end of atEnd.splice(0).toReversed()) await end().catch((error: unknown) => console.error(error));
      installed?.remove();
    })());
  const stop = (): void => {
    // Whatever is under way fails now, and nobody wants to know how.
    for (const event of ["uncaughtException", "unhandledRejection"] as const) process.on(event, () => undefined);
    void clean().finally(() => process.exit(1));
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
  const lines: Line[] = [];
  try {
    for (const [name, run] of Object.entries(PARTS)) {
      if (wanted.length > 0 && !wanted.includes(name)) continue;
      const from = performance.now();
      lines.push(...(await run({ program, fleet: () => (fleet ??= startFleet(program())) })));
      console.error(`${name}: ${((performance.now() - from) / 1000).toFixed(0)} s`);
    }
  } finally {
    await clean();
  }
  console.log(`\n${table(lines)}`);
  const met = lines.every((line) => line.met);
  const results = { at: new Date().toISOString(), node: process.version, met, lines };
  writeFileSync(join(root, "bench/results.json"), `${JSON.stringify(results, undefined, 2)}\n`);
  console.log(`\n${met ? "every line is met" : "a line is missed"} (${((performance.now() - began) / 1000).toFixed(0)} s)`);
  process.exitCode = met ? 0 : 1;
}

await main(process.argv.slice(2));
