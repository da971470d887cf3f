// Clients that go away: how soon the provider is let go, before the first byte, in mid-stream, and where nothing is streamed.
import { pause } from "../test/gateway.ts";
import type { Job } from "./gateway-load.ts";
import type { Rig } from "./gateway-rig.ts";
import { type Line, median, within } from "./measure.ts";

const TIMES = 20;
/** By then the request has reached the provider. */
const BEFORE_MS = 80;

const CASES: readonly { readonly line: string; readonly job: Pick<Job, "model" | "stream" | "afterMs"> }[] = [
  { line: "before the first byte", job: { model: "silent", stream: true, afterMs: BEFORE_MS } },
  { line: "in mid-stream", job: { model: "stay", stream: true } },
  { line: "without streaming", job: { model: "silent", stream: false, afterMs: BEFORE_MS } },
];

export async function leaving(rig: Rig): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for (const { line, job } of CASES) {
    await rig.closes();
    const { left } = await rig.run({ ...job, goal: rig.ours, clients: 1, requests: TIMES, how: "leave" });
    await pause(100);
    const closes = await rig.closes();
    const open = await rig.open();
    // One by one, far apart: the end that the provider sees after a client has left is that client's.
    const took = left.flatMap((at) => {
      const after = closes.map((close) => Number(BigInt(close) - BigInt(at)) / 1e6).filter((ms) => ms > 0);
      return after.length === 0 ? [] : [Math.min(...after)];
    });
    const note = `the longest of ${TIMES}, ${median(took).toFixed(1)} the median; ${closes.length} had reached the provider, ${open} are left open`;
    const told = within({ line: `client leaves ${line}: provider let go`, unit: "ms", limit: 10, note }, Math.max(...took));
    lines.push({ ...told, met: told.met && open === 0 && closes.length === TIMES });
  }
  return lines;
}
