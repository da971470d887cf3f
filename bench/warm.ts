// From the first call of an agent that has no sandbox yet to its answer: a waiting sandbox taken, against one that is made.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeGateway, until, type Gateway } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import { atMost, interleaved, type Line, timed, within } from "./measure.ts";

const TURNS = 10;
const WARM_UP = 2;
const IMAGE = "beige-tiny:1";
const WAITING = 6;

const agent = (name: string, cold: boolean): string => `
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "${IMAGE}", start: lazy, resources: {memory: 64Mi}${cold ? ", env: {COLD: yes}" : ""}}`;

const waiting = async (gateway: Gateway): Promise<number> => (await gateway.request("GET", "/api/health")).body.warm.waiting.length;

async function first(gateway: Gateway, name: string): Promise<void> {
  const { body } = await gateway.request("POST", `/api/agents/${name}/exec`, { command: "true" });
  if (body.exitCode !== 0) throw new Error(`exec in ${name}: ${JSON.stringify(body)}`);
}

export async function warming(program: string): Promise<readonly Line[]> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  await gateway.start();
  writeFileSync(join(gateway.home, "host.yaml"), `warm: [{image: "${IMAGE}", count: ${WAITING}, resources: {memory: 64Mi}}]\n`, {
    mode: 0o600,
  });
  const all = Array.from({ length: TURNS + WARM_UP }, (_, i) => i);
  const provider = "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: scripted}\nspec: {api: echo}\n";
  await gateway.apply(provider + all.map((i) => agent(`w${i}`, false) + agent(`c${i}`, true)).join(""));
  const next = { warm: 0, cold: 0 };
  const full = (): Promise<unknown> => until(async () => (await waiting(gateway)) === WAITING, 120_000, "sandboxes wait");
  const pair = await interleaved(
    { turns: TURNS, warmUp: WARM_UP },
    async () => {
      await full();
      return timed(() => first(gateway, `w${next.warm++}`));
    },
    async () => {
      await full();
      return timed(() => first(gateway, `c${next.cold++}`));
    },
  );
  const note = "pool at rest; a lazy agent's exec of true through the API, from nothing to the answer";
  return [
    within({ line: "warm claim to first command", unit: "ms", limit: 50, note }, pair.value),
    atMost(
      { line: "warm claim against create and start", unit: "ms", limit: 0.25, note: "floor: the same without a waiting sandbox" },
      pair,
    ),
  ];
}
