// The command line as a process, against a bare Node: its start alone, and a whole apply that has nothing to do.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Fleet } from "./fleet.ts";
import { atMost, interleaved, type Line, runProgram, timed } from "./measure.ts";

const HOW = { turns: 31, warmUp: 4 };

const node = (args: readonly string[], env?: NodeJS.ProcessEnv): Promise<number> => timed(() => runProgram(process.execPath, args, env));
const bare = (): Promise<number> => node(["-e", "0"]);

export async function version(program: string): Promise<Line> {
  const beige = join(program, "bin/beige.cjs");
  const pair = await interleaved(HOW, () => node([beige, "version"]), bare);
  return atMost({ line: "beige version", unit: "ms", limit: 1.6, note: "floor: node -e 0" }, pair);
}

export async function noopApply({ gateway, file }: Fleet, program: string): Promise<Line> {
  await gateway.apply(readFileSync(file, "utf8"));
  const env = { ...process.env, BEIGE_HOME: gateway.home, NO_COLOR: "1" };
  const apply = [join(program, "bin/beige.cjs"), "apply", "-f", file];
  const pair = await interleaved(HOW, () => node(apply, env), bare);
  return atMost({ line: "beige apply of 20 agents, nothing to do", unit: "ms", limit: 2.5, note: "floor: node -e 0" }, pair);
}
