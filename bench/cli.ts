// The command line as a process, against a bare Node: its start alone, and a whole apply that has nothing to do.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Fleet } from "./fleet.ts";
import { atMost, interleaved, type Line, runProgram, timed } from "./measure.ts";

const WARM_APPLIES = 30;
const HOW = { turns: 31, warmUp: 4 };

const node = (args: readonly string[], env?: NodeJS.ProcessEnv): Promise<number> => timed(() => runProgram(process.execPath, args, env));
const bare = (): Promise<number> => node(["-e", "0"]);

export async function version(program: string): Promise<Line> {
  const beige = join(program, "bin/beige.cjs");
  // As after the first start of a gateway: with a home, in which compiled code is kept.
  const home = mkdtempSync(join(tmpdir(), "beige-bench-home-"));
  try {
    const env = { ...process.env, BEIGE_HOME: home };
    const pair = await interleaved(HOW, () => node([beige, "version"], env), bare);
    return atMost({ line: "beige version", unit: "ms", limit: 1.6, note: "floor: node -e 0" }, pair);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

export async function noopApply({ gateway, file }: Fleet, program: string): Promise<readonly Line[]> {
  const stack = readFileSync(file, "utf8");
  // A gateway that has been at work for a while: its code is compiled by use.
  for (let i = 0; i < WARM_APPLIES; i++) await gateway.apply(stack);
  const env = { ...process.env, BEIGE_HOME: gateway.home, NO_COLOR: "1" };
  const apply = [join(program, "bin/beige.cjs"), "apply", "-f", file];
  const pair = await interleaved(HOW, () => node(apply, env), bare);
  const line = "beige apply of 20 agents, nothing to do";
  return [
    atMost({ line, unit: "ms", limit: 2.5, note: "floor: node -e 0" }, pair),
    // What the control plane at full depth is to reach, of the same turns.
    atMost({ line: `${line}: the aim`, unit: "ms", limit: 2, note: "the same turns as the line above" }, pair),
  ];
}
