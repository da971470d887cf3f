import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, pause } from "../gateway.ts";

const COUNT = Number(process.env["BEIGE_HOSTILE"] ?? "10000");
const BY_CLI = 100;
const SIDE_BY_SIDE = 4;
const STALL_MS = 250;

/** Numbers that are the same in every run. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

const word = (seed: number): string => createHash("sha256").update(String(seed)).digest("base64url");

const agent = (name: string, spec: string): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: ${name}}\nspec:\n  model: {provider: scripted, id: m}\n${spec}`;

/** Each is wrong by itself, whatever stands around it. */
const POISONS: readonly ((junk: string, roll: (below: number) => number) => string)[] = [
  (junk) => agent("a", `  x${junk}: 1\n`),
  (junk) => agent(`"../${junk}"`, ""),
  (junk) => agent("a", "").replace("kind: Agent", `kind: A${junk}`),
  (junk) => agent("a", "").replace("beige.dev/v1", `beige.dev/${junk}`),
  (junk) => agent("a", `  tools: [${junk}`),
  (junk) => agent("a", `  tools: !!js/function "${junk}"\n`),
  (junk) => agent("a", `  tools: *a${junk.replaceAll(/[^A-Za-z0-9]/g, "")}\n`),
  (junk) => agent("a", `  instructions: "${junk}"\n  instructions: again\n`),
  (junk) => agent("a", `  instructions: "\${NOT_${junk.replaceAll(/\W|_/g, "").toUpperCase()}_SET}"\n`),
  (_, roll) => agent("a", `  tools: ${"[".repeat(200 + roll(20_000))}\n`),
  (_, roll) => agent("a", `  tools: ${"{a: ".repeat(200 + roll(5_000))}\n`),
  (junk, roll) =>
    `a: &a [${junk},${junk}]\n${Array.from(
      { length: 8 + roll(20) },
      (_u, i) =>
        `b${i}: &b${i} [${Array(9)
          .fill(i === 0 ? "*a" : `*b${i - 1}`)
          .join(",")}]`,
    ).join("\n")}\n`,
  (junk) => agent("a", `  suspend: "${junk}"\n`),
  (junk) => agent("a", `  sandbox: {resources: {memory: "${junk}"}}\n`),
  (junk) => agent("a", `  model: {provider: ${junk.toLowerCase()}, id: m}\n`),
  (junk) => agent("a", `  sandbox: {mounts: [{source: "/proc/${junk}/../../etc", target: relative}]}\n`),
  (junk) => `${agent("a", "")}---\n${agent("a", `  # ${junk}\n`)}`,
  (junk) => `\u0000${junk}\u0007\u202e`,
  (junk) => `- ${junk}\n- {}\n`,
  (junk) => agent("a", `  plugins: {__proto__: {${junk.replaceAll("-", "_")}: 1}}\n  constructor: 1\n`),
  (junk) => agent("a", `  budget: {usdPerDay: -1e${junk.length}${"9".repeat(400)}}\n`),
  (junk) =>
    `apiVersion: beige.dev/v1\nkind: Schedule\nmetadata: {name: s}\nspec: {agent: travel, cron: "${junk} * * * *", timeZone: "${junk}", input: x}\n`,
  (junk) => `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec: {api: echo, apiKey: "sk-${junk}"}\n`,
  (junk, roll) => agent("a", `  ${junk}${"é\u{1F98A}".repeat(1 + roll(20_000))}\n`),
  // Long ones cost as much as all the others together: now and then.
  (junk, roll) => `${"# filler\n".repeat(roll(10) === 0 ? roll(20_000) : roll(200))}%${junk}\n---\n- \t- :\n`,
];

const hostile = (seed: number): string => {
  const roll = dice(seed + 1);
  const poison = POISONS[seed % POISONS.length];
  return poison === undefined ? "" : poison(word(seed), roll);
};

const gateway = makeGateway();
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "beige-hostile-"));
  await gateway.start();
  const steps = "{steps: [{match: '.', text: pong}]}";
  await gateway.apply(
    `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: scripted}\nspec: {api: echo, echo: ${steps}}\n---\n${agent("travel", "  suspend: true\n")}`,
    { wait: false },
  );
}, 60_000);
afterAll(async () => {
  await gateway.clean();
  rmSync(folder, { recursive: true, force: true });
});

async function apply(text: string): Promise<number> {
  const files = [{ name: "x.yaml", folder, text, vars: {}, files: {} }];
  const lines = await gateway.stream("/api/apply", { files, dryRun: false, wait: false });
  return (lines.at(-1) as { exit?: number } | undefined)?.exit ?? -1;
}

/** Runs `one` for each number, so many side by side. */
async function each(count: number, side: number, one: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: side }, async () => {
      while (next < count) await one(next++);
    }),
  );
}

test(`${COUNT} hostile manifests are each refused with exit 2, and nobody else waits for them`, async () => {
  const before = await gateway.request("GET", "/apis/beige.dev/v1/agents");
  const odd: [number, number][] = [];
  const waits: number[] = [];
  const over = new AbortController();
  const others = (async () => {
    while (!over.signal.aborted) {
      const began = performance.now();
      const seen = await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/travel");
      waits.push(performance.now() - began);
      if (seen.status !== 200) odd.push([-1, seen.status]);
      await pause(5);
    }
  })();
  await each(COUNT, SIDE_BY_SIDE, async (seed) => {
    const exit = await apply(hostile(seed));
    if (exit !== 2) odd.push([seed, exit]);
  });
  over.abort();
  await others;
  expect(odd.map(([seed, exit]) => `${seed % POISONS.length}: exit ${exit}: ${hostile(seed).slice(0, 200)}`)).toEqual([]);
  const slow = waits.toSorted((a, b) => b - a);
  // The machine may stop anybody now and then. A manifest that stalls the gateway is one in twenty-six here, and shows far below this.
  expect(slow[Math.floor(slow.length / 100)]).toBeLessThan(STALL_MS);
  const names = (body: { items: { metadata: { name: string } }[] }): readonly string[] => body.items.map((o) => o.metadata.name);
  const after = await gateway.request("GET", "/apis/beige.dev/v1/agents");
  expect(names(after.body as never)).toEqual(names(before.body as never));
}, 300_000);

test(`${BY_CLI} of them through the command line end with 2 and a word, never with a stack`, async () => {
  const seen = new Set<string>();
  await each(BY_CLI, 2, async (n) => {
    const file = join(folder, `m${n}.yaml`);
    writeFileSync(file, hostile(n));
    const ran = await gateway.beige("apply", "-f", file);
    if (ran.code !== 2 || ran.err === "" || /\n\s+at .*\.ts:\d/.test(ran.err))
      seen.add(`${n % POISONS.length}: ${ran.code} ${ran.err.slice(0, 300)}`);
  });
  expect([...seen]).toEqual([]);
}, 120_000);
