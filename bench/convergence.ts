// From nothing to twenty Ready agents, against the same twenty containers made and started by dockerode alone; and the same stack again.
import { randomBytes } from "node:crypto";
import { cpSync, lstatSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Dockerode from "dockerode";
import { createDocker } from "../sandbox/docker.ts";
import { createOptions } from "../sandbox/docker/shape.ts";
import { guestPath } from "../sandbox/guest.ts";
import { systemClock } from "../src/adapters/clock.ts";
import { LABEL, type SandboxSpec } from "../src/core/sandbox.ts";
import { atEnd, ENGINE, type Fleet, names, stackOf } from "./fleet.ts";
import { atMost, interleaved, type Line, timed, within } from "./measure.ts";
import { countingProxy } from "./proxy.ts";

const CONCURRENCY = 4;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

type Options = Readonly<Record<string, unknown>>;

/** What our containers are made with, for containers of the bench's own label on copies of the same folders. */
async function equalOptions(fleet: Fleet, folder: string, label: string): Promise<readonly Options[]> {
  const { gateway, docker } = fleet;
  const home = gateway.home;
  const sandbox = createDocker({ socketPath: ENGINE, guest: guestPath(), epoch: Date.now(), clock: systemClock, log: silent });
  for (const part of ["run", "agents"]) {
    cpSync(join(home, part), join(folder, part), { recursive: true, filter: (path) => !lstatSync(path).isSocket() });
  }
  return Promise.all(
    gateway.containers().map(async (id): Promise<Options> => {
      const seen = await sandbox.inspect(id);
      if (seen === undefined) throw new Error(`container ${id} is gone`);
      const image = await docker.getImage(seen.spec.image).inspect();
      const spec: SandboxSpec = {
        ...seen.spec,
        name: `${seen.spec.name}-raw`,
        labels: { ...seen.spec.labels, [LABEL.store]: label },
        mounts: seen.spec.mounts.map((mount) => ({ ...mount, source: mount.source.replace(home, folder) })),
      };
      return createOptions(spec, { env: image.Config.Env, labels: image.Config.Labels ?? {}, volumes: [] });
    }),
  );
}

/** The floor: nothing but create and start, four containers at a time. */
async function makeRaw(docker: Dockerode, wanted: readonly Options[], ended: AbortSignal): Promise<void> {
  const left = [...wanted];
  const worker = async (): Promise<void> => {
    for (let options = left.pop(); options !== undefined && !ended.aborted; options = left.pop()) {
      const container = await docker.createContainer(options);
      await container.start();
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

async function removeRaw(docker: Dockerode, label: string): Promise<void> {
  const found = await docker.listContainers({ all: true, filters: { label: [`${LABEL.store}=${label}`] } });
  await Promise.all(found.map(({ Id }) => docker.getContainer(Id).remove({ force: true })));
}

/** Leaves twenty agents that are Ready. */
async function cold(fleet: Fleet): Promise<Line> {
  const { gateway, docker } = fleet;
  const label = `bench-${randomBytes(6).toString("hex")}`;
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-raw-"));
  const stack = stackOf(names);
  const ended = new AbortController();
  let making: Promise<void> = Promise.resolve();
  atEnd.push(async () => {
    ended.abort();
    await making.catch(() => undefined);
    await removeRaw(docker, label);
  });
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  try {
    // Provider and plugin stand from here on; the first twenty warm everything up.
    await gateway.apply(stack);
    const wanted = await equalOptions(fleet, folder, label);
    const ours = async (): Promise<number> => {
      await fleet.disband();
      return timed(() => gateway.apply(stack));
    };
    const raw = async (): Promise<number> => {
      // As many other containers are there in either turn.
      await fleet.disband();
      const took = await timed(() => (making = makeRaw(docker, wanted, ended.signal)));
      await removeRaw(docker, label);
      return took;
    };
    const pair = await interleaved({ turns: 6, warmUp: 0 }, ours, raw);
    await gateway.apply(stack);
    return atMost(
      { line: "cold convergence of 20 agents, until Ready", unit: "ms", limit: 1.2, note: "floor: create+start, 4 at a time" },
      pair,
    );
  } finally {
    await removeRaw(docker, label);
  }
}

/** The gateway is started anew behind the proxy, so that taking containers over counts too. */
async function noWrites(fleet: Fleet): Promise<Line> {
  const { gateway } = fleet;
  const socket = join(gateway.home, "count.sock");
  const before = gateway.containers().toSorted();
  await gateway.stop();
  const proxy = await countingProxy(socket, ENGINE);
  try {
    await gateway.start({ DOCKER_HOST: `unix://${socket}` });
    const end = (await gateway.apply(stackOf(names))).at(-1);
    const same = gateway.containers().toSorted().join() === before.join();
    if (proxy.reads() < names.length) throw new Error("the gateway did not look through the proxy");
    if (!same || end.applied !== 0) throw new Error(`not a no-op: ${JSON.stringify(end)}`);
    const note = `and ${proxy.reads()} reads; restart of the gateway included${proxy.writes.length === 0 ? "" : `; ${proxy.writes.slice(0, 3).join(", ")}`}`;
    return within({ line: "no-op apply of 20 agents", unit: "writes", limit: 0, note }, proxy.writes.length);
  } finally {
    await gateway.stop();
    await proxy.close();
    await gateway.start();
  }
}

export async function convergence(fleet: Fleet): Promise<readonly Line[]> {
  return [await cold(fleet), await noWrites(fleet)];
}
