import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Resource } from "../../src/core/resource.ts";
import { manualClock, seededRandom, silentLog } from "../../src/engine/fixture.ts";
import { openStore } from "../../src/engine/store.ts";
import { makeGateway, type Ran } from "../gateway.ts";

const gateway = makeGateway();
const manifest = (more = "", size = "1"): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: travel}\nspec:\n  suspend: true\n  model: {provider: scripted, id: m}\n  sandbox: {resources: {cpus: ${size}}}\n${more}`;
const OLD = "  mood: {today: fine}\n";
const SAYS = /^warning: unknown field "mood" in spec \(as it was before; not changed\)$/m;
const PATH = "/apis/beige.dev/v1/namespaces/default/agents/travel";

beforeAll(async () => {
  await gateway.start();
  await gateway.apply(`apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: scripted}\nspec: {api: echo}\n---\n${manifest()}`, {
    wait: false,
  });
  await gateway.stop();
  // As a version before this one may have left it, whose schema had a field more.
  const store = openStore({ home: gateway.home, clock: manualClock(Date.now()), random: seededRandom(1), log: silentLog });
  const object = store.objects.get({ kind: "Agent", namespace: "default", name: "travel" }) as Resource;
  store.objects.write([{ type: "put", object: { ...object, spec: { ...(object.spec as object), mood: { today: "fine" } } } }], "full");
  store.close();
  await gateway.start();
}, 120_000);
afterAll(async () => gateway.clean());

const stored = async (): Promise<Resource> => (await gateway.request("GET", PATH)).body as Resource;

test.each([
  ["label", "agent/travel", "team=ops"],
  ["annotate", "agent/travel", "note=n"],
  ["patch", "agent/travel", "-p", '{"spec":{"instructions":"be kind"}}'],
  ["resume", "agent/travel"],
  ["suspend", "agent/travel"],
  ["rollout", "restart", "agent/travel"],
])(
  "beige %s works on an agent with a field that this version does not know, and warns in one line",
  async (...args) => {
    const ran = await gateway.beige(...args.filter((each) => typeof each === "string"));
    expect(ran).toMatchObject({ code: 0, err: expect.stringMatching(SAYS) });
    expect(ran.err.trim().split("\n")).toHaveLength(1);
    expect((await stored()).spec).toMatchObject({ mood: { today: "fine" } });
  },
  30_000,
);

test("a write that changes the field itself is refused, and so is one with another wrong field", async () => {
  for (const patch of ['{"spec":{"mood":{"today":"bad"}}}', '{"spec":{"modo":1}}']) {
    const ran = await gateway.beige("patch", "agent/travel", "-p", patch);
    expect(ran).toMatchObject({ code: 2, err: expect.stringMatching(/unknown field "mo(od|do)"/) });
  }
}, 30_000);

async function apply(text: string, ...more: readonly string[]): Promise<Ran> {
  const file = join(gateway.home, "m.yaml");
  writeFileSync(file, text);
  return gateway.beige("apply", "-f", file, "--no-wait", "--force-conflicts", ...more);
}

test("an apply of the manifest as it was goes on with a warning at its line, and takes no other value", async () => {
  const dry = await apply(manifest(OLD, "2"), "--dry-run");
  expect(dry).toMatchObject({ code: 0, err: expect.stringMatching(/warning: unknown field "mood" in spec\n.*m\.yaml:8:3/) });
  expect(await apply(manifest(OLD, "2"))).toMatchObject({ code: 0, err: expect.stringMatching(/warning: .*mood/s) });
  expect((await stored()).spec).toMatchObject({ mood: { today: "fine" }, sandbox: { resources: { cpus: 2 } } });
  expect(await apply(manifest("  mood: {today: bad}\n", "2"))).toMatchObject({ code: 2, err: expect.stringContaining("mood") });
}, 60_000);

/** The warnings of one patch through the API, as kubectl reads them. */
const patch = (body: object): Promise<{ status: number; warnings: string }> =>
  new Promise((done, fail) => {
    const headers = { "content-type": "application/merge-patch+json" };
    const sent = request({ socketPath: join(gateway.home, "beige.sock"), method: "PATCH", path: PATH, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => done({ status: answer.statusCode ?? 0, warnings: answer.headers["warning"] ?? "" }));
    });
    sent.on("error", fail);
    sent.end(JSON.stringify(body));
  });

test("the API says it in a Warning header, and stops when the field goes", async () => {
  const told = '299 - "unknown field \\"mood\\" in spec (as it was before; not changed)"';
  expect(await patch({ metadata: { labels: { team: "dev" } } })).toEqual({ status: 200, warnings: told });
  expect(await patch({ spec: { mood: 1 } })).toMatchObject({ status: 422 });
  expect(await patch({ spec: { mood: null } })).toEqual({ status: 200, warnings: "" });
  expect(await patch({ spec: { mood: { today: "fine" } } })).toMatchObject({ status: 422 });
});
