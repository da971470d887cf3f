// A gateway without agents: from its start until it is ready, and its memory beside a bare Node's.
import { spawn } from "node:child_process";
import { makeGateway, pause } from "../test/gateway.ts";
import { rssMiB } from "./gateway-rig.ts";
import { atMost, type Line, median, timed, within } from "./measure.ts";

const STARTS = 7;
const SETTLE_MS = 3_000;

export async function starting(program: string): Promise<readonly Line[]> {
  const took: number[] = [];
  for (let i = -1; i < STARTS; i++) {
    const gateway = makeGateway({ program });
    try {
      const ms = await timed(() => gateway.start());
      if (i >= 0) took.push(ms);
    } finally {
      await gateway.clean();
    }
  }
  const gateway = makeGateway({ program });
  const bare = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { stdio: "ignore" });
  try {
    await gateway.start();
    await pause(SETTLE_MS);
    const [value, floor] = [rssMiB(gateway.pid()), rssMiB(bare.pid ?? 0)];
    const memory = { value, floor, ratio: value / floor, quiet: value / floor, turns: 1 };
    const note = `median of ${STARTS} new homes; it is asked every 50 ms`;
    return [
      within({ line: "start of a gateway without agents, until ready", unit: "ms", limit: 600, note }, median(took)),
      atMost({ line: "resident memory of an idle gateway without agents", unit: "MiB", limit: 3, note: "floor: idle node" }, memory),
    ];
  } finally {
    bare.kill("SIGKILL");
    await gateway.clean();
  }
}
