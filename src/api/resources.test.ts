import { afterEach, beforeEach, expect, test } from "vitest";
import { rig, type Rig } from "./rig.ts";

let at: Rig;
beforeEach(async () => {
  at = await rig();
});
afterEach(() => at.end());

const AGENTS = "/apis/beige.dev/v1/namespaces/default/agents";
const agent = (name: string, spec: object = {}) => ({ apiVersion: "beige.dev/v1", kind: "Agent", metadata: { name }, spec });
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

test("the same objects are served on the unix socket and, with the token, over TCP", async () => {
  at.control.put("Agent", "travel");
  for (const tcp of [false, true]) {
    const answer = await at.ask(`GET ${AGENTS}/travel`, { tcp });
    expect([answer.status, answer.json.metadata.name, answer.json.metadata.namespace]).toEqual([200, "travel", "default"]);
  }
});

test("a cluster object has no namespace on the wire, and empty metadata is left out", async () => {
  at.control.put("Provider", "echo", {}, { labels: {}, finalizers: [] });
  const { json } = await at.ask("GET /apis/beige.dev/v1/providers/echo");
  expect(Object.keys(json.metadata).toSorted()).toEqual(["creationTimestamp", "generation", "name", "resourceVersion", "uid"]);
});

test("a list covers one namespace or all of them", async () => {
  at.control.put("Agent", "a");
  at.control.put("Agent", "b", {}, { namespace: "team" });
  const names = async (path: string) =>
    (await at.ask(`GET ${path}`)).json.items.map((o: { metadata: { name: string } }) => o.metadata.name);
  expect(await names(AGENTS)).toEqual(["a"]);
  expect(await names("/apis/beige.dev/v1/namespaces/team/agents")).toEqual(["b"]);
  expect(await names("/apis/beige.dev/v1/agents")).toEqual(["a", "b"]);
  const { json } = await at.ask("GET /apis/beige.dev/v1/agents?limit=500");
  expect([json.kind, json.apiVersion, json.metadata.resourceVersion]).toEqual(["AgentList", "beige.dev/v1", "102"]);
});

test("selectors reach the engine", async () => {
  at.control.put("Agent", "a", {}, { labels: { team: "ops" } });
  at.control.put("Agent", "b");
  const count = async (query: string) => (await at.ask(`GET ${AGENTS}?${query}`)).json.items.length;
  expect(await count("labelSelector=team%3Dops")).toBe(1);
  expect(await count("fieldSelector=metadata.name%3Db")).toBe(1);
  expect(await count("labelSelector=&fieldSelector=")).toBe(2);
});

test("create answers 201, again answers AlreadyExists", async () => {
  const made = await at.ask(`POST ${AGENTS}?fieldManager=me`, { body: agent("travel") });
  expect([made.status, made.json.metadata.uid]).toEqual([201, "uid-Agent-travel"]);
  const again = await at.ask(`POST ${AGENTS}`, { body: agent("travel") });
  expect([again.status, again.json.reason, again.json.details.kind]).toEqual([409, "AlreadyExists", "agents"]);
  expect(at.control.writes.map((w) => w.manager)).toEqual(["me", "unknown"]);
});

test("a dry run changes nothing", async () => {
  const version = at.control.version();
  expect((await at.ask(`POST ${AGENTS}?dryRun=All`, { body: agent("travel") })).status).toBe(201);
  expect((await at.ask(`GET ${AGENTS}/travel`)).status).toBe(404);
  expect(at.control.version()).toBe(version);
  expect((await at.ask(`POST ${AGENTS}?dryRun=Some`, { body: agent("travel") })).status).toBe(400);
});

test("update, merge patch and apply reach the same object; without a change nothing moves", async () => {
  at.control.put("Agent", "travel", { a: 1 });
  const put = await at.ask(`PUT ${AGENTS}/travel`, { body: agent("travel", { a: 2 }) });
  const patched = await at.ask(`PATCH ${AGENTS}/travel`, { body: { spec: { b: 3 } }, type: "application/merge-patch+json" });
  const applied = await at.ask(`PATCH ${AGENTS}/travel?fieldManager=kubectl&force=false`, {
    body: agent("travel", { a: 2, b: 3 }),
    type: "application/apply-patch+yaml; charset=utf-8",
  });
  expect([put.status, patched.status, applied.status]).toEqual([200, 200, 200]);
  expect(applied.json.spec).toEqual({ a: 2, b: 3 });
  expect(applied.json.metadata.resourceVersion).toBe(patched.json.metadata.resourceVersion);
  expect(at.control.writes.map((w) => w.op)).toEqual(["update", "merge", "apply"]);
});

test("apply creates what is absent and needs a manager", async () => {
  const options = { body: agent("new"), type: "application/apply-patch+yaml" };
  expect((await at.ask(`PATCH ${AGENTS}/new`, options)).status).toBe(400);
  expect((await at.ask(`PATCH ${AGENTS}/new?fieldManager=m`, options)).status).toBe(201);
});

test.each([
  ["application/strategic-merge-patch+json", "strategic"],
  ["application/json", "application/json"],
  ["text/plain", "text/plain"],
])("a %s patch is refused in words", async (type, words) => {
  at.control.put("Agent", "travel");
  const { status, json } = await at.ask(`PATCH ${AGENTS}/travel`, { body: "[]", type });
  expect([status, json.reason]).toEqual([415, "UnsupportedMediaType"]);
  expect(json.message).toContain(words);
  expect(json.error.hint).toContain("merge-patch+json");
});

test("an invalid object names every field, a conflict names the other manager", async () => {
  const invalid = await at.ask(`POST ${AGENTS}`, { body: agent("x", { bad: [1] }) });
  expect([invalid.status, invalid.json.reason]).toEqual([422, "Invalid"]);
  expect(invalid.json.details).toMatchObject({
    group: "beige.dev",
    kind: "agents",
    name: "x",
    causes: [{ reason: "FieldValueInvalid", field: "spec.bad[0]", message: 'unknown field "bad"' }],
  });
  expect(invalid.json.error.problems[0].hint).toBe('did you mean "good"?');
  const options = { body: agent("x", { owned: 1 }), type: "application/apply-patch+yaml" };
  const conflict = await at.ask(`PATCH ${AGENTS}/x?fieldManager=me`, options);
  expect([conflict.status, conflict.json.reason]).toEqual([409, "Conflict"]);
  expect(conflict.json.details.causes).toEqual([
    { reason: "FieldManagerConflict", message: 'conflict with "apply/default" using beige.dev/v1', field: ".spec.owned" },
  ]);
  expect((await at.ask(`PATCH ${AGENTS}/x?fieldManager=me&force=true`, options)).status).toBe(201);
});

test("a bug shows nothing of itself to the client and everything to the log", async () => {
  const { status, text, json } = await at.ask(`POST ${AGENTS}`, { body: agent("x", { boom: 1 }) });
  expect([status, json.reason, json.error.code]).toEqual([500, "InternalError", "internal"]);
  expect(text).not.toContain("planted-secret");
  expect(at.logged.join()).toContain("planted-secret leaked by a bug");
});

test("a warning cannot break out of its header", async () => {
  const { status, headers } = await at.ask(`POST ${AGENTS}`, { body: agent("x", { warn: 1 }) });
  expect([status, headers.warning, headers.injected]).toEqual([201, `299 - "say \\"hi\\"??Injected: yes ?"`, undefined]);
});

test("body and path must name the same object", async () => {
  at.control.put("Agent", "travel");
  for (const body of [
    agent("other"),
    { ...agent("travel"), kind: "Provider" },
    { ...agent("travel"), apiVersion: "v1" },
    { metadata: { name: "travel", namespace: "team" } },
  ])
    expect((await at.ask(`PUT ${AGENTS}/travel`, { body })).status).toBe(400);
  expect((await at.ask(`POST ${AGENTS}`, { body: { metadata: { generateName: "x-" } } })).json.message).toContain("generateName");
  for (const body of [[], 1, "null", { metadata: [] }, {}]) expect((await at.ask(`POST ${AGENTS}`, { body })).status).toBe(400);
  expect((await at.ask(`POST ${AGENTS}`)).status).toBe(400);
  expect(at.control.writes).toEqual([]);
});

test("delete answers a Status when the object is gone and the object while a finalizer holds it", async () => {
  at.control.put("Agent", "quick");
  at.control.put("Agent", "held", {}, { finalizers: ["beige.dev/agent"] });
  const quick = await at.ask(`DELETE ${AGENTS}/quick`);
  expect([quick.status, quick.json.kind, quick.json.status, quick.json.details.uid]).toEqual([200, "Status", "Success", "uid-Agent-quick"]);
  const held = await at.ask(`DELETE ${AGENTS}/held`, { body: { propagationPolicy: "Background", gracePeriodSeconds: 0 } });
  expect([held.status, held.json.kind, held.json.metadata.deletionTimestamp]).toEqual([200, "Agent", "2026-03-05T00:00:00Z"]);
  expect((await at.ask(`DELETE ${AGENTS}/held?force=true`)).json.status).toBe("Success");
  expect((await at.ask(`DELETE ${AGENTS}/held`)).json.reason).toBe("NotFound");
});

test("delete honours preconditions and dry runs, and never takes a whole collection", async () => {
  at.control.put("Agent", "travel");
  expect((await at.ask(`DELETE ${AGENTS}/travel`, { body: { preconditions: { uid: "other" } } })).status).toBe(409);
  expect((await at.ask(`DELETE ${AGENTS}/travel?dryRun=All`)).status).toBe(200);
  expect((await at.ask(`DELETE ${AGENTS}/travel`, { body: { dryRun: ["All"] } })).status).toBe(200);
  const all = await at.ask(`DELETE ${AGENTS}`);
  expect([all.status, all.json.reason]).toEqual([405, "MethodNotAllowed"]);
  expect((await at.ask(`GET ${AGENTS}/travel`)).status).toBe(200);
});

test("a Table has the kind's columns and carries metadata, nothing, or whole objects", async () => {
  at.control.put("Agent", "travel", { a: 1 });
  const get = async (query: string) => (await at.ask(`GET ${AGENTS}${query}`, { headers: { accept: TABLE } })).json;
  const table = await get("");
  expect([table.kind, table.apiVersion]).toEqual(["Table", "meta.k8s.io/v1"]);
  expect(table.columnDefinitions.map((c: { name: string; priority: number }) => [c.name, c.priority])).toEqual([
    ["Name", 0],
    ["Age", 0],
    ["Generation", 1],
  ]);
  expect(table.rows[0].cells).toEqual(["travel", "60s", 1]);
  expect([table.rows[0].object.kind, table.rows[0].object.spec]).toEqual(["PartialObjectMetadata", undefined]);
  expect((await get("?includeObject=None")).rows[0].object).toBeUndefined();
  expect((await get("?includeObject=Object")).rows[0].object.spec).toEqual({ a: 1 });
  expect((await get("/travel")).rows).toHaveLength(1);
});

test("what is not JSON is not served", async () => {
  const accept = async (value: string) => (await at.ask(`GET ${AGENTS}`, { headers: { accept: value } })).status;
  expect(await accept("application/yaml")).toBe(406);
  expect(await accept("application/vnd.kubernetes.protobuf,application/json")).toBe(200);
  expect(await accept("*/*")).toBe(200);
});

test("unknown kinds, subresources and wrong scopes are said", async () => {
  at.control.put("Provider", "echo");
  for (const path of [
    "pods",
    "constructor",
    "__proto__",
    "namespaces/default",
    "namespaces/default/pods/x",
    "namespaces/default/providers/echo",
    "agents/travel",
    "namespaces/default/agents/x/status",
  ]) {
    const { status, json } = await at.ask(`GET /apis/beige.dev/v1/${path}`);
    expect([path, status, json.kind, json.reason]).toEqual([path, 404, "Status", "NotFound"]);
  }
});

test("discovery lists the kinds with their short names and verbs", async () => {
  expect((await at.ask("GET /apis")).json.groups[0].preferredVersion.groupVersion).toBe("beige.dev/v1");
  expect((await at.ask("GET /apis/beige.dev")).json.kind).toBe("APIGroup");
  const { json } = await at.ask("GET /apis/beige.dev/v1?timeout=32s");
  expect(
    json.resources.map((r: { name: string; namespaced: boolean; shortNames: string[] }) => [r.name, r.namespaced, r.shortNames]),
  ).toEqual([
    ["agents", true, ["ag"]],
    ["agents/status", true, undefined],
    ["providers", false, ["pr"]],
    ["providers/status", false, undefined],
  ]);
  expect((await at.ask("GET /version")).json.gitVersion).toBe("v1.33.0+beige.0.1.0");
});
