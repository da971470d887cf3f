// A Source of a thousand files in a fresh gateway: from its apply until it and everything in it is Ready.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeGateway, pause } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import { type Line, median, timed, within } from "./measure.ts";

const FILES = 1000;
const TURNS = 3;
const POLL_MS = 20;
const GIVE_UP_MS = 30_000;
/** What an operator lets a Source bring. */
const HOST = "sources: {kinds: [Provider]}\n";

const provider = (name: string): string => `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: ${name}}\nspec: {api: echo}\n`;

interface Condition {
  readonly type: string;
  readonly status: string;
}

const isReady = (object: { readonly status?: { readonly conditions?: readonly Condition[] } }): boolean =>
  object.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;

interface Settled {
  readonly source: number;
  readonly all: number;
}

async function settle(program: string, folder: string): Promise<Settled> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  try {
    writeFileSync(join(gateway.home, "host.yaml"), HOST, { mode: 0o600 });
    await gateway.start();
    // What every apply needs is loaded by the first one.
    await gateway.apply(provider("first"), { set: "first" });
    const began = performance.now();
    const text = `apiVersion: beige.dev/v1\nkind: Source\nmetadata: {name: stacks}\nspec: {path: ${JSON.stringify(folder)}}\n`;
    const source = await timed(() => gateway.apply(text));
    for (;;) {
      const { items } = (await gateway.request("GET", "/apis/beige.dev/v1/providers")).body;
      const all = performance.now() - began;
      if (items.length === FILES + 1 && items.every(isReady)) return { source, all };
      if (all > GIVE_UP_MS) throw new Error(`the source brought ${items.length - 1} objects in ${GIVE_UP_MS} ms`);
      await pause(POLL_MS);
    }
  } finally {
    await gateway.clean();
  }
}

export async function settling(program: string): Promise<Line> {
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-source-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  try {
    for (let i = 0; i < FILES; i++) writeFileSync(join(folder, `provider-${i}.yaml`), provider(`provider-${i}`));
    const seen: Settled[] = [];
    for (let turn = 0; turn < TURNS; turn++) seen.push(await settle(program, folder));
    const note = `median of ${TURNS} gateways, to the last object Ready; the Source itself after ${Math.round(median(seen.map((each) => each.source)))} ms`;
    return within({ line: "Source of 1,000 files settles", unit: "ms", limit: 2000, note }, median(seen.map((each) => each.all)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
