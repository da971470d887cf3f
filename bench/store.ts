// The one transaction of an apply of a thousand objects, against its rows written to SQLite by hand; and what the gateway's event loop feels of it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { kinds } from "../controllers/index.ts";
import { systemClock } from "../src/adapters/clock.ts";
import { systemRandom } from "../src/adapters/random.ts";
import type { ManifestFile } from "../src/core/control.ts";
import { commit } from "../src/engine/apply/commit.ts";
import { readSet } from "../src/engine/apply/read.ts";
import { stageOne, type Staged } from "../src/engine/apply/stage.ts";
import { createLanguage } from "../src/engine/language.ts";
import { openStore } from "../src/engine/store.ts";
import { makeGateway } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import { stallMeter } from "./longest.ts";
import { atMost, interleaved, type Line, median, timed, within } from "./measure.ts";

const OBJECTS = 1000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

const stack = Array.from(
  { length: OBJECTS },
  (_, i) => `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: provider-${i}, labels: {team: "team-${i % 7}"}}
spec:
  api: openai-completions
  baseUrl: https://api.example.com/v1
  concurrency: ${1 + (i % 9)}
  apiKey: {env: KEY}
  models: [{id: model-${i}, contextWindow: 200000, maxTokens: 16384, cost: {input: 3, output: 15}}]
`,
).join("---\n");

const openAt = (home: string) => openStore({ home, clock: systemClock, random: systemRandom, log: silent });

/** What an apply hands to its transaction, for an empty store. */
async function staged(): Promise<readonly Staged[]> {
  const home = mkdtempSync(join(tmpdir(), "beige-bench-store-"));
  const store = openAt(home);
  try {
    const language = createLanguage(kinds);
    const file: ManifestFile = { name: "stack.yaml", folder: home, text: stack, vars: {}, files: {} };
    const { wanted, problems } = await readSet([file], language, () => Promise.resolve());
    if (wanted.length !== OBJECTS) throw new Error(`the stack is not valid: ${JSON.stringify(problems[0])}`);
    const view = (): never => {
      throw new Error("nothing here asks for the view");
    };
    const deps = { store, language, clock: systemClock, random: systemRandom, view };
    return wanted.map((each) => stageOne(deps, each, { manager: "apply/default", force: false, removed: [] }));
  } finally {
    store.close();
    rmSync(home, { recursive: true, force: true });
  }
}

const TABLES = ["objects", "history", "revisions", "inventory"] as const;
type Rows = Readonly<Record<(typeof TABLES)[number], readonly (readonly (string | number | null)[])[]>>;

const rowsOf = (path: string): Rows => {
  const db = new DatabaseSync(path);
  const read = TABLES.map(
    (table) =>
      [
        table,
        db
          .prepare(`SELECT * FROM ${table}`)
          .all()
          .map((row) => Object.values(row)),
      ] as const,
  );
  db.close();
  return Object.fromEntries(read) as unknown as Rows;
};

/** Milliseconds of the commit alone; its rows are kept for the floor. */
async function ours(list: readonly Staged[]): Promise<{ readonly ms: number; readonly rows: Rows }> {
  const home = mkdtempSync(join(tmpdir(), "beige-bench-store-"));
  const store = openAt(home);
  try {
    const what = { staged: list, pruned: { remove: [], left: [], release: [] }, now: systemClock.now() };
    const ms = await timed(async () => commit(store, "default", what));
    store.close();
    return { ms, rows: rowsOf(join(home, "state.db")) };
  } finally {
    store.close();
    rmSync(home, { recursive: true, force: true });
  }
}

/** The same rows into the same tables, pragmas and one durable transaction, by four prepared statements. */
async function raw(rows: Rows): Promise<number> {
  const home = mkdtempSync(join(tmpdir(), "beige-bench-store-"));
  openAt(home).close();
  const db = new DatabaseSync(join(home, "state.db"), { enableForeignKeyConstraints: false });
  try {
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000; PRAGMA trusted_schema = OFF");
    const inserts = TABLES.map((table) => {
      const places = (rows[table][0] ?? []).map(() => "?").join(", ");
      return { insert: db.prepare(`INSERT INTO ${table} VALUES (${places})`), list: rows[table] };
    });
    return await timed(async () => {
      db.exec("BEGIN IMMEDIATE");
      for (const { insert, list } of inserts) for (const row of list) insert.run(...row);
      db.exec("COMMIT");
    });
  } finally {
    db.close();
    rmSync(home, { recursive: true, force: true });
  }
}

async function transaction(): Promise<Line> {
  const list = await staged();
  let { rows } = await ours(list);
  const pair = await interleaved(
    { turns: 15, warmUp: 5 },
    async () => {
      const made = await ours(list);
      rows = made.rows;
      return made.ms;
    },
    () => raw(rows),
  );
  const note = `floor: the same ${TABLES.reduce((sum, table) => sum + rows[table].length, 0)} rows`;
  return atMost({ line: "transaction of an apply of 1,000 objects", unit: "ms", limit: 3, note }, pair);
}

/** The longest time for which the gateway's event loop did nothing else, in ms, and how long the apply took. */
async function stallOnce(program: string): Promise<{ readonly stallMs: number; readonly applyMs: number }> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  const meter = stallMeter(gateway);
  try {
    await gateway.start({ ...meter.env, KEY: "k".repeat(20) });
    // The start is not what is asked about; the first apply of anything loads what every apply needs.
    await gateway.apply("apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: first}\nspec: {api: echo}\n", { set: "first" });
    await meter.ask();
    const applyMs = await timed(() => gateway.apply(stack));
    return { stallMs: await meter.ask(), applyMs };
  } finally {
    await gateway.clean();
  }
}

async function stall(program: string): Promise<Line> {
  const seen = [];
  for (let turn = 0; turn < 3; turn++) seen.push(await stallOnce(program));
  const note = `3 gateways; the whole apply, until Ready: ${Math.round(median(seen.map((each) => each.applyMs)))} ms`;
  const told = { line: "longest event-loop stall during it", unit: "ms", limit: 250, note } as const;
  return within(told, median(seen.map((each) => each.stallMs)));
}

export async function storing(program: string): Promise<readonly Line[]> {
  return [await transaction(), await stall(program)];
}
