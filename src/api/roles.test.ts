import { afterEach, expect, test, vi } from "vitest";
import { createAudit } from "../adapters/audit.ts";
import { createKeys } from "../adapters/keys.ts";
import type { CallRequest, CallResult } from "../core/call.ts";
import type { KeyAsk, Keys, KeyShown } from "../core/keys.ts";
import { principalName } from "../core/who.ts";
import type { Shelf } from "../core/world.ts";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { verifyChain } from "../core/chain.ts";
import { forbidden, roleAllows } from "./allow.ts";
import { realClock, rig, type Rig } from "./rig.ts";

let at: Rig | undefined;
afterEach(async () => at?.end());

function keysOnPaper(): Keys {
  const kept = new Map<string, string>();
  const shelf: Shelf = {
    get: (key) => kept.get(key),
    set: (key, value) => void kept.set(key, value),
    delete: (key) => void kept.delete(key),
    list: () => [],
  };
  let n = 0;
  return createKeys({ shelf, clock: realClock, random: { hex: (bytes) => `${++n}`.padStart(2 * bytes, "0") } });
}

async function open(more: Parameters<typeof rig>[0] = {}) {
  const keys = keysOnPaper();
  const made = await rig({ keys, ...more });
  at = made;
  made.control.put("Agent", "travel");
  made.control.put("Agent", "secret");
  const token = (ask: Partial<KeyAsk> = {}): string => keys.create({ name: "ci", role: "caller", agents: ["travel"], ...ask }).secret;
  const as = (secret: string, line: string, body?: unknown) =>
    made.ask(line, { tcp: true, headers: { authorization: `Bearer ${secret}` }, ...(body !== undefined && { body }) });
  return { ...made, keys, token, as };
}

const ROOT = "/apis/beige.dev/v1/namespaces/default";

test("a viewer reads everything and changes, runs and learns of no keys", async () => {
  const { token, as, control } = await open();
  const viewer = token({ role: "viewer", agents: [] });
  for (const path of [`${ROOT}/agents`, `${ROOT}/agents/travel`, "/api/agents", "/api/events", "/api/v1/namespaces"])
    expect((await as(viewer, `GET ${path}`)).status, path).toBe(200);
  const refused: readonly (readonly [string, unknown?])[] = [
    [`POST ${ROOT}/agents`, { metadata: { name: "x" }, spec: {} }],
    [`PATCH ${ROOT}/agents/travel?dryRun=All`, { spec: {} }],
    [`DELETE ${ROOT}/agents/travel`],
    ["POST /api/apply", { files: [], dryRun: true }],
    ["POST /api/agents/travel/prompt", { text: "x" }],
    ["POST /api/agents/travel/exec", { command: "id" }],
    ["GET /api/v1/namespaces/default/pods/travel/exec?command=id"],
    ["GET /api/v1/namespaces/default/pods/travel/exe%63?command=id"],
    ["GET /api/keys"],
    ["GET /api/%6beys"],
    ["POST /api/keys", { name: "mine", role: "operator" }],
  ];
  for (const [line, body] of refused) expect((await as(viewer, line, body)).status, line).toBe(403);
  expect(control.writes).toEqual([]);
});

test("a caller prompts and calls its agents, and sees no others", async () => {
  const { token, as } = await open();
  const caller = token();
  expect((await as(caller, "GET /api/agents")).json.map((each: { name: string }) => each.name)).toEqual(["travel"]);
  expect((await as(caller, "POST /api/agents/travel/exec", { command: "id" })).status).toBe(200);
  const said = await as(caller, "POST /api/agents/default.travel/prompt", { text: "hi", session: "cli:default" });
  expect(said.text).toContain('"session":"key:ci:cli-default"');
  for (const line of [
    "POST /api/agents/secret/prompt",
    "POST /api/agents/other.travel/prompt",
    "GET /api/agents/secret",
    `GET ${ROOT}/agents/travel`,
  ])
    expect((await as(caller, line, line.startsWith("POST") ? { text: "x" } : undefined)).status, line).toBe(403);
  expect((await as(caller, "POST /api/agents/%73ecret/prompt", { text: "x" })).status).toBe(403);
});

test("a revoked key is refused at the next request, and one without a quota left until the day is over", async () => {
  const { token, as, keys } = await open();
  const few = token({ name: "few", requests: 2, sessions: 1 });
  expect((await as(few, "POST /api/agents/travel/prompt", { text: "x", session: "a:1" })).status).toBe(200);
  expect((await as(few, "POST /api/agents/travel/prompt", { text: "x", session: "a:2" })).status).toBe(429);
  const over = await as(few, "GET /api/agents");
  expect([over.status, over.json.error.code, Number(over.headers["retry-after"]) > 0]).toEqual([429, "exhausted", true]);
  const gone = token();
  expect((await as(gone, "GET /api/agents")).status).toBe(200);
  keys.revoke("ci");
  expect((await as(gone, "GET /api/agents")).status).toBe(401);
  expect((await as(gone, "GET /api/health")).json).toEqual({ status: "ok" });
});

test("a key that is revoked ends with what it began; what others began goes on (P99)", async () => {
  const left: string[] = [];
  const waits = async (request: CallRequest, signal: AbortSignal): Promise<CallResult> => {
    const who = principalName(request.principal);
    await new Promise<void>((over) => {
      signal.addEventListener("abort", () => over(void left.push(who)), { once: true });
      if (request.tool === "soon") setTimeout(over, 300);
    });
    return { call: "c", success: true, output: new Uint8Array(), exitCode: 0, outcome: "ok" };
  };
  const { token, as } = await open({ call: waits });
  const [bad, good] = [token({ name: "bad" }), token({ name: "good" })];
  const root = token({ name: "root", role: "operator", agents: [] });
  const cut = as(bad, "POST /api/agents/travel/exec", { tool: "never", args: [] }).then(
    (answer) => answer.complete,
    () => false,
  );
  const other = as(good, "POST /api/agents/travel/exec", { tool: "soon", args: [] });
  await vi.waitFor(async () => {
    expect((await as(root, "GET /api/keys")).json.items.map((key: KeyShown) => key.used.requests)).toEqual([1, 1, expect.any(Number)]);
  });
  expect((await as(root, "DELETE /api/keys/bad")).status).toBe(200);
  expect(await cut).toBe(false);
  expect((await other).status).toBe(200);
  expect(left).toEqual(["key/bad"]);
  // Whoever revokes its own key hears that it is done.
  expect((await as(root, "DELETE /api/keys/root")).json.revokedAt).toBeGreaterThan(0);
});

test.each(["agents?watch=1", "agents?watch=1&allowWatchBookmarks=true", "providers?watch=1", "events?watch=1"])(
  "a stream of %s that a revoked key reads is cut, and its next request is refused (P99)",
  async (path) => {
    const { token, as, keys, control } = await open();
    const root = token({ name: "root", role: "operator", agents: [] });
    const eyes = token({ name: "eyes", role: "viewer", agents: [] });
    const at = path.startsWith("providers") ? "/apis/beige.dev/v1" : path.startsWith("events") ? "/api/v1/namespaces/default" : ROOT;
    const cut = as(eyes, `GET ${at}/${path}`).then(
      (answer) => answer.complete,
      () => false,
    );
    await vi.waitFor(() => expect(keys.list().map(({ used }) => used.requests)).toEqual([1, 0]));
    expect((await as(root, "DELETE /api/keys/eyes")).status).toBe(200);
    expect(await cut).toBe(false);
    await vi.waitFor(() => expect(control.watching.count).toBe(0));
    expect((await as(eyes, `GET ${ROOT}/agents`)).status).toBe(401);
  },
);

test("what a client asks about itself is what its role may do", async () => {
  const { token, as } = await open();
  const [viewer, caller] = [token({ name: "v", role: "viewer", agents: [] }), token()];
  const can = async (secret: string, resourceAttributes: object): Promise<boolean> =>
    (await as(secret, "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { spec: { resourceAttributes } })).json.status.allowed;
  const agents = { group: "beige.dev", resource: "agents" };
  expect([await can(viewer, { ...agents, verb: "list" }), await can(viewer, { ...agents, verb: "create" })]).toEqual([true, false]);
  const exec = { resource: "pods", subresource: "exec", verb: "create", namespace: "default" };
  expect([await can(viewer, exec), await can(caller, { ...exec, name: "travel" }), await can(caller, { ...exec, name: "secret" })]).toEqual(
    [false, true, false],
  );
  const who = await as(viewer, "POST /apis/authentication.k8s.io/v1/selfsubjectreviews", {});
  expect(who.json.status.userInfo).toEqual({ username: "beige:key/v", groups: ["system:authenticated", "beige:viewers"] });
  const { resourceRules } = (await as(viewer, "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {})).json.status;
  const verbs = resourceRules.filter((r: any) => !r.resources[0].startsWith("selfsubject")).flatMap((r: any) => r.verbs); // eslint-disable-line typescript/no-explicit-any -- an answer's rows
  expect(new Set(verbs)).toEqual(new Set(["get", "list", "watch"]));
});

test("a write names who asked through which door", async () => {
  const { token, as, control, ...more } = await open();
  const body = { apiVersion: "beige.dev/v1", kind: "Agent", metadata: { name: "new" }, spec: {} };
  await more.ask(`POST ${ROOT}/agents`, { body });
  await more.ask(`PUT ${ROOT}/agents/new`, { body, tcp: true });
  await as(token({ name: "root", role: "operator", agents: [] }), `PUT ${ROOT}/agents/new`, body);
  expect(control.writes.map(({ by }) => by?.request !== undefined && /^[\w-]{36}$/.test(by.request))).toEqual([true, true, true]);
  expect(control.writes.map(({ by }) => by && { principal: by.principal, door: by.door })).toEqual([
    { principal: { kind: "operator" }, door: "socket" },
    { principal: { kind: "operator" }, door: "tcp" },
    { principal: { kind: "operator", key: "root" }, door: "tcp" },
  ]);
});

test("the access log has what was refused, what changes, and what came by a key, in one chain and without query values", async () => {
  const folder = mkdtempSync(join(tmpdir(), "beige-access-"));
  const path = join(folder, "access.jsonl");
  const chain = createAudit({ path, clock: realClock });
  let n = 0;
  const { token, as, ...more } = await open({ access: { chain, random: { uuid: () => `r${++n}` } } });
  const caller = token();
  await more.ask(`GET ${ROOT}/agents`);
  await as("wrong-token-wrong-token", `GET ${ROOT}/agents?labelSelector=planted-value`);
  await as(caller, "GET /api/agents");
  await as(caller, "POST /api/agents/secret/prompt", { text: "planted-value" });
  await more.ask(`DELETE ${ROOT}/agents/travel`);
  for (let i = 0; i < 300; i++) await as("wrong-token-wrong-token", "GET /api/agents");
  await chain.close();
  const text = readFileSync(path, "utf8");
  const rows = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(
    rows.slice(0, 4).map((r) => [r["tool"], (r["args"] as string[])[0], r["principal"], r["door"], r["status"], r["decision"]]),
  ).toEqual([
    ["GET", `${ROOT}/agents?labelSelector`, undefined, "tcp", 401, "denied"],
    ["GET", "/api/agents", "key/ci", "tcp", 200, "allowed"],
    ["POST", "/api/agents/secret/prompt", "key/ci", "tcp", 403, "denied"],
    ["DELETE", `${ROOT}/agents/travel`, "operator", "socket", 200, "allowed"],
  ]);
  expect(text).not.toContain("planted-value");
  expect(rows.length).toBeLessThan(150);
  expect(await verifyChain([text])).toMatchObject({ ok: true, open: 0 });
  rmSync(folder, { recursive: true, force: true });
});

test("nobody but the operator has a path that is not listed, whatever its form", () => {
  const caller = { kind: "caller", key: "k", agents: ["*"] } as const;
  for (const url of [
    "/api/apply",
    "/api/keys",
    "//api/agents",
    "/api/agents/../keys",
    "/api/agents/x/prompt/",
    "/apis/beige.dev/v1/agents",
    "",
  ])
    for (const method of ["GET", "POST", "DELETE", "PUT"]) expect(forbidden(caller, { method, url })?.http, `${method} ${url}`).toBe(403);
  expect(forbidden({ kind: "agent", uid: "u", attribution: "none" }, { method: "GET", url: "/api" })?.http).toBe(403);
  expect(roleAllows({ kind: "schedule", name: "s" }, { resource: "pods", subresource: "", verb: "get" })).toBe(false);
});
