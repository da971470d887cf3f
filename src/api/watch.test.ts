import { get as httpGet, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { KubeConfig, Watch } from "@kubernetes/client-node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { rig, type Rig } from "./rig.ts";

let at: Rig;
beforeEach(async () => {
  at = await rig();
});
afterEach(() => at.end());

const AGENTS = "/apis/beige.dev/v1/namespaces/default/agents";

interface Watching {
  readonly response: IncomingMessage;
  readonly lines: any[]; // eslint-disable-line typescript/no-explicit-any -- events are looked into freely
  readonly ended: Promise<boolean>;
  stop(): void;
}

function watching(query: string, headers: Record<string, string> = {}): Promise<Watching> {
  return new Promise((resolve, reject) => {
    const sent = httpGet({ socketPath: at.socket, path: `${AGENTS}?watch=1${query}`, headers, agent: false }, (response) => {
      const lines: unknown[] = [];
      let rest = "";
      response.on("data", (chunk: Buffer) => {
        const parts = (rest + chunk.toString()).split("\n");
        rest = parts.pop() ?? "";
        lines.push(...parts.map((p) => JSON.parse(p)));
      });
      response.on("error", () => undefined);
      const ended = new Promise<boolean>((done) => void response.on("close", () => done(response.complete)));
      resolve({ response, lines, ended, stop: () => void sent.destroy() });
    });
    sent.on("error", reject);
  });
}

async function until(condition: () => boolean, ms = 5_000): Promise<void> {
  for (const end = Date.now() + ms; Date.now() < end;) {
    if (condition()) return;
    await sleep(5);
  }
  expect(condition()).toBe(true);
}

const told = (w: Watching): string[] => w.lines.map((l) => `${l.type} ${l.object.metadata?.name ?? ""}`);

test("a watch without a version starts with what is there, then tells each change", async () => {
  at.control.put("Agent", "old");
  const w = await watching("");
  at.control.put("Agent", "new");
  at.control.put("Agent", "new", { a: 1 });
  at.control.put("Provider", "other-kind");
  await at.ask(`DELETE ${AGENTS}/new`);
  await until(() => w.lines.length >= 4);
  expect(told(w)).toEqual(["ADDED old", "ADDED new", "MODIFIED new", "DELETED new"]);
  w.stop();
});

test("version 0 means the present state, and a watch may start at once on a single object", async () => {
  at.control.put("Agent", "a");
  at.control.put("Agent", "b");
  const w = await watching("&resourceVersion=0&fieldSelector=metadata.name%3Db");
  await until(() => w.lines.length >= 1);
  expect(told(w)).toEqual(["ADDED b"]);
  w.stop();
});

test("a watch goes on from the version where an earlier one was cut, with nothing lost or repeated (P81)", async () => {
  const first = await watching("&resourceVersion=100");
  at.control.put("Agent", "one");
  await until(() => first.lines.length === 1);
  first.stop();
  at.control.put("Agent", "two");
  const second = await watching(`&resourceVersion=${first.lines[0].object.metadata.resourceVersion}`);
  at.control.put("Agent", "three");
  await until(() => second.lines.length === 2);
  expect(told(second)).toEqual(["ADDED two", "ADDED three"]);
  second.stop();
});

test("a version that is no longer kept is told as 410 and ends the stream properly", async () => {
  at.control.put("Agent", "x");
  at.control.compact();
  const w = await watching("&resourceVersion=3");
  expect(await w.ended).toBe(true);
  expect(w.response.statusCode).toBe(200);
  expect(w.lines).toMatchObject([{ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }]);
});

test("the time that a client sets ends the stream with its terminator", async () => {
  const started = Date.now();
  const w = await watching("&timeoutSeconds=1");
  expect(await w.ended).toBe(true);
  expect(Date.now() - started).toBeGreaterThan(900);
  expect(w.lines).toEqual([]);
  await until(() => at.control.watching.count === 0);
});

test("bookmarks come when asked for", async () => {
  const w = await watching("&resourceVersion=100&allowWatchBookmarks=true");
  await until(() => w.lines.length >= 1);
  expect(w.lines[0]).toMatchObject({ type: "BOOKMARK", object: { kind: "Agent", metadata: { resourceVersion: "100" } } });
  w.stop();
});

test("a watch of tables sends the columns once", async () => {
  const w = await watching("", { accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json" });
  at.control.put("Agent", "a");
  at.control.put("Agent", "b");
  await until(() => w.lines.length === 2);
  expect(w.lines.map((l) => [l.type, l.object.kind, l.object.columnDefinitions?.length ?? null, l.object.rows[0].cells[0]])).toEqual([
    ["ADDED", "Table", 3, "a"],
    ["ADDED", "Table", null, "b"],
  ]);
  w.stop();
});

test("a bad selector or version is an ordinary error, not a stream", async () => {
  const selector = await watching("&labelSelector=!!");
  expect([selector.response.statusCode, selector.response.headers["content-type"]]).toEqual([
    400,
    expect.stringContaining("application/json"),
  ]);
  for (const query of ["&resourceVersion=abc", "&resourceVersion=-1", "&timeoutSeconds=soon", "&allowWatchBookmarks=maybe", "&watch=1"])
    expect([400, 422]).toContain((await watching(query)).response.statusCode);
});

test("200 watches at once all hear of a change, and all are gone when their clients leave", async () => {
  const all = await Promise.all(Array.from({ length: 200 }, () => watching("&resourceVersion=100")));
  await until(() => at.control.watching.count === 200);
  at.control.put("Agent", "x");
  await until(() => all.every((w) => w.lines.length === 1), 10_000);
  for (const w of all) w.stop();
  await until(() => at.control.watching.count === 0, 10_000);
});

test.each(["", "&resourceVersion=100&allowWatchBookmarks=true", "&timeoutSeconds=1", "&sendInitialEvents=true&allowWatchBookmarks=true"])(
  "a watch%s that is silent for long is kept open by blanks, which are no lines and end nothing (P81)",
  async (query) => {
    await at.end();
    at = await rig({ limits: { aliveMs: 60 } });
    at.control.put("Agent", "old");
    const w = await watching(query);
    let blanks = 0;
    w.response.on("data", (chunk: Buffer) => (blanks += chunk.toString() === " " ? 1 : 0));
    await until(() => blanks >= 3);
    at.control.put("Agent", "new");
    await until(() => told(w).includes("ADDED new"));
    if (!query.includes("timeout")) return w.stop();
    expect(await w.ended).toBe(true);
  },
);

test("the Kubernetes client that gives a silent watch up hears of a change that comes late (P81)", async () => {
  await at.end();
  at = await rig({ limits: { aliveMs: 100 } });
  const config = new KubeConfig();
  config.loadFromClusterAndUser({ name: "c", server: `http://127.0.0.1:${at.port}`, skipTLSVerify: true }, { name: "u", token: at.token });
  const client = new Watch(config);
  // Half a minute as it comes.
  Object.assign(client, { requestTimeoutMs: 400 });
  const heard: string[] = [];
  const ended: unknown[] = [];
  const stop = await client.watch(
    AGENTS,
    {},
    (type, object: { metadata: { name: string } }) => void heard.push(`${type} ${object.metadata.name}`),
    (error) => void ended.push(error),
  );
  await sleep(1000);
  expect(ended).toEqual([]);
  at.control.put("Agent", "late");
  await until(() => heard.length === 1);
  expect(heard).toEqual(["ADDED late"]);
  stop.abort();
});

test("closing the gateway ends watches with their terminator, at once", async () => {
  await at.end();
  at = await rig({ limits: { drainMs: 30_000 } });
  const w = await watching("");
  const started = Date.now();
  await at.api.close();
  expect(await w.ended).toBe(true);
  expect(Date.now() - started).toBeLessThan(10_000);
});
