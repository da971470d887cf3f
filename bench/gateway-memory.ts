// What open streams, a slow reader and many requests leave in the gateway's memory.
import { pause } from "../test/gateway.ts";
import type { Job } from "./gateway-load.ts";
import { rssMiB, type Rig } from "./gateway-rig.ts";
import { type Line, within } from "./measure.ts";

const OPEN = 1_000;
const FLOOD_MIB = 48;
const MANY = 50_000;
const WARM_REQUESTS = 5_000;
const SETTLE_MS = 1_500;

async function settled(rig: Rig): Promise<number> {
  await pause(SETTLE_MS);
  return rssMiB(rig.gateway.pid());
}

/** Nothing is held any more. */
const nothing = (rig: Rig): Job => ({ goal: rig.direct, model: "whole", stream: false, clients: 1, requests: 1 });

async function idleStreams(rig: Rig): Promise<Line> {
  const before = await settled(rig);
  await rig.run({ goal: rig.inside, model: "stay", stream: true, clients: 1, requests: OPEN, how: "stay" });
  const open = await rig.open();
  const value = (await settled(rig)) - before;
  await rig.run(nothing(rig));
  const note = `${open} open at the provider, by the unix socket; from ${before.toFixed(0)} MiB`;
  const line = within({ line: `${OPEN} open idle streams: more memory`, unit: "MiB", limit: 100, note }, value);
  return { ...line, met: line.met && open === OPEN };
}

async function slowReader(rig: Rig): Promise<Line> {
  // One that reads it all leaves what such large pieces leave.
  await rig.run({ goal: rig.ours, model: "flood", stream: true, clients: 1, requests: 1 });
  const before = await settled(rig);
  await rig.run({ goal: rig.ours, model: "flood", stream: true, clients: 1, requests: 1, how: "slow" });
  const value = (await settled(rig)) - before;
  await rig.run(nothing(rig));
  return within(
    {
      line: `a slow reader of ${FLOOD_MIB} MiB: more memory`,
      unit: "MiB",
      limit: 10,
      note: "it has read the first piece, and then nothing",
    },
    value,
  );
}

async function manyRequests(rig: Rig): Promise<Line> {
  const some = async (requests: number): Promise<void> =>
    void (await rig.run({ goal: rig.ours, model: "whole", stream: false, clients: 16, requests }));
  await some(WARM_REQUESTS);
  const before = await settled(rig);
  await some(MANY);
  const value = (await settled(rig)) - before;
  return within(
    { line: `${MANY} requests: more memory`, unit: "MiB", limit: 10, note: `from ${before.toFixed(0)} MiB, after ${WARM_REQUESTS}` },
    value,
  );
}

export async function holding(rig: Rig): Promise<readonly Line[]> {
  const many = await manyRequests(rig);
  return [many, await idleStreams(rig), await slowReader(rig)];
}
