import { afterEach, beforeEach, expect, test } from "vitest";
import { rig, type Rig } from "../rig.ts";

let at: Rig;
beforeEach(async () => {
  at = await rig();
});
afterEach(() => at.end());

const AGGREGATED = (v: string): string => `application/json;g=apidiscovery.k8s.io;v=${v};as=APIGroupDiscoveryList,application/json`;

test("discovery in one answer says its own version back", async () => {
  for (const [asked, v] of [
    [`${AGGREGATED("v2")},${AGGREGATED("v2beta1")}`, "v2"],
    [AGGREGATED("v2beta1"), "v2beta1"],
  ] as const) {
    const { headers, json } = await at.ask("GET /apis", { headers: { accept: asked } });
    expect(headers["content-type"]?.replaceAll(/[" ]/g, "")).toContain(`g=apidiscovery.k8s.io;v=${v};as=APIGroupDiscoveryList`);
    expect([json.kind, json.apiVersion]).toEqual(["APIGroupDiscoveryList", `apidiscovery.k8s.io/${v}`]);
    const agents = json.items[0].versions[0].resources[0];
    expect(agents).toMatchObject({ resource: "agents", scope: "Namespaced", shortNames: ["ag"], categories: ["all", "beige"] });
    expect(agents.subresources[0].subresource).toBe("status");
  }
  const core = await at.ask("GET /api", { headers: { accept: AGGREGATED("v2") } });
  expect(core.json.items[0].versions[0].resources.map((each: { resource: string }) => each.resource)).toEqual([
    "namespaces",
    "events",
    "pods",
    // By name alone: `kubectl get secrets` hears what to use instead.
    "secrets",
    "configmaps",
  ]);
  const verbs = (name: string) =>
    core.json.items[0].versions[0].resources.find((each: { resource: string }) => each.resource === name).verbs;
  expect([verbs("secrets"), verbs("configmaps")]).toEqual([[], []]);
});

test("every group that is listed can be looked into", async () => {
  const { json } = await at.ask("GET /apis");
  for (const { name, versions } of json.groups) {
    expect((await at.ask(`GET /apis/${name}`)).json.name).toBe(name);
    for (const { groupVersion } of versions) expect((await at.ask(`GET /apis/${groupVersion}`)).json.groupVersion).toBe(groupVersion);
  }
  expect((await at.ask("GET /api")).json.versions).toEqual(["v1"]);
});

test("OpenAPI v3 documents are found by the hash of their content, v2 only in protocol buffers", async () => {
  const { json } = await at.ask("GET /openapi/v3");
  const { serverRelativeURL } = json.paths["apis/beige.dev/v1"];
  expect(serverRelativeURL).toMatch(/hash=[0-9A-F]{64}$/);
  const document = (await at.ask(`GET ${serverRelativeURL}`)).json;
  expect(document.components.schemas["dev.beige.v1.Agent"]["x-kubernetes-group-version-kind"]).toEqual([
    { group: "beige.dev", version: "v1", kind: "Agent" },
  ]);
  const type = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
  const v2 = await at.ask("GET /openapi/v2", { headers: { accept: type } });
  expect([v2.status, v2.headers["content-type"]]).toEqual([200, type.replace("@", ".")]);
  expect((await at.ask("GET /openapi/v2")).status).toBe(406);
  expect((await at.ask("GET /openapi/v3/apis/nothing")).status).toBe(404);
});

test("a pod is there for each agent, in lists, tables and watches, and cannot be written", async () => {
  at.control.put("Agent", "travel", { sandbox: { image: "i" } }, { labels: { team: "ops" } });
  const { json } = await at.ask("GET /api/v1/namespaces/default/pods?labelSelector=beige.dev/agent%3Dtravel,team%3Dops");
  expect(json.items).toMatchObject([
    {
      kind: "Pod",
      metadata: { name: "travel", ownerReferences: [{ kind: "Agent", uid: "uid-Agent-travel" }] },
      status: { phase: "Pending" },
    },
  ]);
  expect(json.items[0].metadata.uid).not.toBe("uid-Agent-travel");
  expect((await at.ask("GET /api/v1/pods?fieldSelector=status.phase%3DRunning")).json.items).toEqual([]);
  expect((await at.ask("GET /api/v1/pods?labelSelector=team%3Dother")).json.items).toEqual([]);
  const table = await at.ask("GET /api/v1/pods", { headers: { accept: "application/json;as=Table;v=v1;g=meta.k8s.io" } });
  expect(table.json.rows[0].cells.slice(0, 3)).toEqual(["travel", "0/1", "Pending"]);
  for (const line of ["DELETE /api/v1/namespaces/default/pods/travel", "POST /api/v1/namespaces/default/pods"])
    expect([line, (await at.ask(line)).status]).toEqual([line, 405]);
  expect((await at.ask("GET /api/v1/namespaces/team/pods/travel")).status).toBe(404);
});

test("a watch of pods follows the agents, and labels that move them in and out", async () => {
  const { text } = await watched("/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1&labelSelector=team%3Da", async () => {
    at.control.put("Agent", "x", { sandbox: {} }, { labels: { team: "a" } });
    at.control.put("Agent", "y", { sandbox: {} }, { labels: { team: "b" } });
    at.control.put("Agent", "x", { sandbox: {} }, { labels: { team: "b" } });
    at.control.put("Agent", "x", { sandbox: {} }, { labels: { team: "a" } });
    await at.ask("DELETE /apis/beige.dev/v1/namespaces/default/agents/x");
  });
  const told = lines(text).map((event) => `${event.type} ${event.object.metadata.name}`);
  expect(told).toEqual(["ADDED x", "DELETED x", "ADDED x", "DELETED x"]);
});

async function watched(path: string, meanwhile: () => Promise<void>): Promise<{ text: string }> {
  const answer = at.ask(`GET ${path}`);
  await new Promise((done) => setTimeout(done, 100));
  await meanwhile();
  return answer;
}
interface Told {
  readonly type: string;
  readonly object: { readonly metadata: { readonly name: string } };
}
const lines = (text: string): readonly Told[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Told);

test("namespaces are those in use and the default one; creating one stores nothing and says so", async () => {
  at.control.put("Agent", "a", {}, { namespace: "team" });
  const names = async (): Promise<string[]> =>
    (await at.ask("GET /api/v1/namespaces")).json.items.map((item: { metadata: { name: string } }) => item.metadata.name);
  expect(await names()).toEqual(["default", "team"]);
  const made = await at.ask("POST /api/v1/namespaces", { body: { metadata: { name: "later" } } });
  expect([made.status, made.json.metadata.name]).toEqual([201, "later"]);
  expect(made.headers["warning"]).toContain("nothing was stored");
  expect(await names()).toEqual(["default", "team"]);
  expect((await at.ask("POST /api/v1/namespaces", { body: { metadata: { name: "../x" } } })).status).toBe(400);
  expect((await at.ask("DELETE /api/v1/namespaces/team")).json.message).toContain("kubectl delete");
});

test("events are projected, of pods too", async () => {
  at.control.put("Agent", "travel");
  const about = "fieldSelector=involvedObject.name%3Dtravel,involvedObject.kind%3D";
  const ours = (await at.ask(`GET /api/v1/namespaces/default/events?${about}Agent`)).json.items;
  expect(ours).toMatchObject([{ kind: "Event", reason: "Created", involvedObject: { kind: "Agent", apiVersion: "beige.dev/v1" } }]);
  const pods = (await at.ask(`GET /api/v1/namespaces/default/events?${about}Pod`)).json.items;
  expect(pods).toMatchObject([{ involvedObject: { kind: "Pod", uid: "pod-uid-Agent-travel" } }]);
  expect((await at.ask("GET /api/v1/namespaces/team/events")).json.items).toEqual([]);
});

test("access reviews tell what is served and nothing more", async () => {
  const may = async (resourceAttributes: object): Promise<boolean> => {
    const body = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
    return (await at.ask("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { body })).json.status.allowed;
  };
  expect(await may({ group: "beige.dev", resource: "agents", verb: "create" })).toBe(true);
  expect(await may({ group: "beige.dev", resource: "agents", verb: "*" })).toBe(true);
  expect(await may({ group: "beige.dev", resource: "agents", subresource: "status", verb: "patch" })).toBe(false);
  expect(await may({ group: "beige.dev", resource: "agents", verb: "deletecollection" })).toBe(false);
  expect(await may({ resource: "pods", subresource: "exec", verb: "create" })).toBe(true);
  expect(await may({ resource: "pods", verb: "delete" })).toBe(false);
  expect(await may({ resource: "secrets", verb: "get" })).toBe(false);
  expect(await may({ group: "*", resource: "*", verb: "*" })).toBe(false);
});

test("what is not served is refused with what to use", async () => {
  const cases = [
    ["GET /api/v1/namespaces/default/secrets", /beige secret set/],
    ["POST /api/v1/namespaces/default/configmaps", /no ConfigMaps/],
    ["GET /apis/apps/v1/deployments", /kubectl apply/],
    ["POST /api/v1/namespaces/default/pods/travel/exec?command=ls", /kubectl 1\.30 or newer/],
    ["GET /api/v1/namespaces/default/pods/travel/portforward", /port-forward is not offered/],
    ["PATCH /apis/beige.dev/v1/namespaces/default/agents/travel/status", /written by the gateway alone/],
  ] as const;
  for (const [line, words] of cases) {
    const { json } = await at.ask(line);
    expect([line, json.kind, json.message]).toEqual([line, "Status", expect.stringMatching(words)]);
  }
  // As kubectl 1.32 and later send what they create.
  const headers = { "content-type": "application/vnd.kubernetes.protobuf" };
  const created = await at.ask("POST /api/v1/namespaces/default/secrets", { body: {}, headers });
  expect([created.status, created.json.message]).toEqual([404, expect.stringMatching(/beige secret set/)]);
});

test("unknown fields are refused, told or dropped as the writer asks", async () => {
  await at.end();
  const agent = (await import("../../../schemas/agent.json", { with: { type: "json" } })).default;
  at = await rig();
  const kinds = at.control.kinds().map((kind) => (kind.kind === "Agent" ? { ...kind, schema: agent } : kind));
  Object.assign(at.control, { kinds: () => kinds });
  const body = {
    metadata: { name: "x", uid: "u", colour: 1 },
    spec: { model: { provider: "p", id: "i", idd: 1 }, plugins: { any: { thing: 1 } } },
    status: {},
  };
  const send = (validation: string) => at.ask(`POST /apis/beige.dev/v1/namespaces/default/agents?fieldValidation=${validation}`, { body });
  const strict = await send("Strict");
  expect([strict.status, strict.json.reason]).toEqual([400, "BadRequest"]);
  expect(strict.json.message).toContain('strict decoding error: unknown field "metadata.colour", unknown field "spec.model.idd"');
  expect(at.control.writes).toEqual([]);
  const warned = await send("Warn");
  expect(warned.headers["warning"]).toContain('unknown field \\"spec.model.idd\\"');
  expect(at.control.writes.at(-1)?.body).toEqual({
    metadata: { name: "x", uid: "u" },
    spec: { model: { provider: "p", id: "i" }, plugins: { any: { thing: 1 } } },
    status: {},
  });
  expect((await send("Maybe")).status).toBe(400);
});
