// Plans that change nothing: of twenty agents against what Docker alone takes to tell of them, and of ten thousand objects.
import { type Gateway, makeGateway } from "../test/gateway.ts";
import { AGENTS, atEnd, type Fleet, names, stackOf } from "./fleet.ts";
import { stallMeter } from "./longest.ts";
import { atMost, interleaved, type Line, median, timed, within } from "./measure.ts";

const FEW = 1000;
const MANY = 10_000;
const OBJECTS_A_FILE = 100;

interface File {
  readonly name: string;
  readonly folder: string;
  readonly text: string;
}

/** Milliseconds of a dry run from the request to the last byte; throws unless it plans what it should. */
async function plan(
  gateway: Gateway,
  files: readonly File[],
  sum: { readonly create: number; readonly unchanged: number },
): Promise<number> {
  const manifests = files.map((file) => ({ ...file, vars: {}, files: {} }));
  const request = { files: manifests, set: "default", dryRun: true, forceConflicts: false, prune: false, wait: false };
  let body = "";
  const took = await timed(async () => {
    body = String((await gateway.request("POST", "/api/apply", request)).body);
  });
  const events = body
    .split("\n")
    .filter((line) => line !== "")
    .map(
      (line) => JSON.parse(line) as { readonly type: string; readonly plan?: { readonly summary: { create: number; unchanged: number } } },
    );
  const { create, unchanged } = events.find((event) => event.type === "plan")?.plan?.summary ?? { create: 0, unchanged: 0 };
  if (create !== sum.create || unchanged !== sum.unchanged) throw new Error(`not the plan: ${body.slice(-500)}`);
  return took;
}

export async function noopPlan({ gateway, docker }: Fleet): Promise<Line> {
  const text = stackOf(names);
  await gateway.apply(text);
  const ids = gateway.containers();
  const files = [{ name: "stack.yaml", folder: gateway.home, text }];
  const looked = async (): Promise<void> => {
    await docker.listContainers({ all: true });
    await Promise.all(ids.map((id) => docker.getContainer(id).inspect()));
  };
  const lookedInTurn = async (): Promise<void> => {
    await docker.listContainers({ all: true });
    for (const id of ids) await docker.getContainer(id).inspect();
  };
  const pair = await interleaved(
    { turns: 61, warmUp: 30 },
    // Provider and plugin are in the set too.
    () => plan(gateway, files, { create: 0, unchanged: AGENTS + 2 }),
    () => timed(looked),
  );
  const inTurn: number[] = [];
  for (let turn = 0; turn < 15; turn++) inTurn.push(await timed(lookedInTurn));
  const note = `dry run through the API; floor: a list and 20 inspects at once (one after the other ${median(inTurn).toFixed(1)} ms)`;
  return atMost({ line: "no-op plan of 20 agents", unit: "ms", limit: 3, note }, pair);
}

const provider = (i: number): string => `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: provider-${i}, labels: {team: "team-${i % 7}"}}
spec:
  api: openai-completions
  baseUrl: https://api.example.com/v1
  concurrency: ${1 + (i % 9)}
  models: [{id: model-${i}, contextWindow: 200000, maxTokens: 16384, cost: {input: 3, output: 15}}]
`;

const filesOf = (objects: number, folder: string): readonly File[] =>
  Array.from({ length: objects / OBJECTS_A_FILE }, (_, file) => ({
    name: `stack-${file}.yaml`,
    folder,
    text: Array.from({ length: OBJECTS_A_FILE }, (_each, i) => provider(file * OBJECTS_A_FILE + i)).join("---\n"),
  }));

/** Of an empty store, so that each object is a create. */
export async function largePlan(program: string): Promise<readonly Line[]> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  const meter = stallMeter(gateway);
  const [few, many] = [filesOf(FEW, gateway.home), filesOf(MANY, gateway.home)];
  const stalls: number[] = [];
  try {
    await gateway.start(meter.env);
    const pair = await interleaved(
      { turns: 6, warmUp: 2 },
      async () => {
        await meter.ask();
        const took = await plan(gateway, many, { create: MANY, unchanged: 0 });
        stalls.push(await meter.ask());
        return (took * FEW) / MANY;
      },
      () => plan(gateway, few, { create: FEW, unchanged: 0 }),
    );
    const measured = stalls.slice(-pair.turns);
    const blocked = `median of ${measured.length} plans, worst ${Math.round(Math.max(...measured))} ms`;
    return [
      atMost({ line: "plan of 10,000 objects, per 1,000", unit: "ms", limit: 1.5, note: "floor: plan of 1,000; all creates" }, pair),
      within({ line: "longest event-loop stall during a plan of 10,000", unit: "ms", limit: 50, note: blocked }, median(measured)),
    ];
  } finally {
    await gateway.clean();
  }
}
