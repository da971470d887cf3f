import { afterEach, expect, test } from "vitest";
import type { Resource } from "../core/resource.ts";
import { type Asked, json, stand, type Stand } from "./harness.ts";

const stands: Stand[] = [];
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});

const PATH = "/apis/beige.dev/v1/namespaces/default/agents/travel";
const REVISIONS = [
  { revision: 3, at: "2026-11-30T10:00:00.000Z", manager: "apply/default", fields: ["model", "tools"], spec: { v: 3 } },
  { revision: 2, at: "2026-11-29T10:00:00.000Z", manager: "hand", fields: ["model"], spec: { v: 2 } },
  { revision: 1, at: "2026-11-28T10:00:00.000Z", manager: "apply/default", fields: ["model"], spec: { v: 1 } },
];
const condition = (type: string, status: string, reason: string, message = "") => ({
  type,
  status,
  reason,
  message,
  observedGeneration: 3,
  lastTransitionTime: "",
});
const agent = (more: object = {}) => ({
  apiVersion: "beige.dev/v1",
  kind: "Agent",
  metadata: {
    name: "travel",
    namespace: "default",
    generation: 3,
    resourceVersion: "70",
    labels: { team: "ops" },
    managedFields: [{ manager: "apply/default", fieldsV1: { "f:spec": { "f:v": {} } } }],
  },
  spec: { v: 3 },
  ...more,
});

interface There {
  readonly made: Stand;
  readonly written: { readonly method: string; readonly query: string; readonly type: string; readonly body: unknown }[];
}

async function gateway(object: object = agent(), revisions: readonly object[] = REVISIONS): Promise<There> {
  const written: There["written"] = [];
  const write = ({ request, response, url, body }: Asked): void => {
    written.push({ method: request.method ?? "", query: url.search, type: request.headers["content-type"] ?? "", body });
    const { spec } = body as Resource;
    const next =
      spec === undefined || JSON.stringify(spec) === '{"v":3}'
        ? object
        : agent({ metadata: { ...agent().metadata, generation: 4, managedFields: [] }, spec });
    json(response, next);
  };
  const made = await stand({
    [`GET ${PATH}`]: ({ response }) => json(response, object),
    "GET /api/revisions": ({ response }) => json(response, { items: revisions }),
    [`PUT ${PATH}`]: write,
    [`PATCH ${PATH}`]: write,
    "GET /apis/beige.dev/v1/providers/echo": ({ response }) => json(response, { ...agent(), kind: "Provider" }),
  });
  stands.push(made);
  return { made, written };
}

test("history lists the revisions, newest first, and shows the spec of one", async () => {
  const { made } = await gateway();
  expect((await made.run(["rollout", "history", "agent/travel"])).out).toBe(
    [
      "REVISION   WHEN                       BY              CHANGED",
      "3          2026-11-30T10:00:00.000Z   apply/default   model, tools",
      "2          2026-11-29T10:00:00.000Z   hand            model",
      "1          2026-11-28T10:00:00.000Z   apply/default   model",
      "",
    ].join("\n"),
  );
  expect((await made.run(["rollout", "history", "agent", "travel", "--revision", "2"])).out).toBe("v: 2\n");
  expect(JSON.parse((await made.run(["rollout", "history", "agent/travel", "-o", "json"])).out)).toEqual({ items: REVISIONS });
  expect(await made.run(["rollout", "history", "agent/travel", "--revision", "9"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("agent/travel has no revision 9; kept are 3, 2, 1"),
  });
});

test.each<[string, string[], object, string]>([
  ["the one before", [], { v: 2 }, "revision 2"],
  ["the one that is named", ["--to-revision", "1"], { v: 1 }, "revision 1"],
])("undo writes %s as the newest, on the condition that nobody wrote meanwhile", async (_name, flags, spec, said) => {
  const { made, written } = await gateway();
  const ran = await made.run(["rollout", "undo", "agent/travel", ...flags]);
  expect(ran).toMatchObject({ code: 0, out: `agent/travel rolled back to ${said}, as revision 4\n` });
  expect(ran.err).toContain("its manifests (apply/default) still say otherwise");
  expect(written).toEqual([
    {
      method: "PUT",
      query: "?fieldManager=rollout",
      type: "application/json",
      body: {
        apiVersion: "beige.dev/v1",
        kind: "Agent",
        metadata: { name: "travel", namespace: "default", resourceVersion: "70", labels: { team: "ops" } },
        spec,
      },
    },
  ]);
});

test("undo to what it is already says so, and of a first revision there is nothing to undo", async () => {
  const { made } = await gateway();
  expect((await made.run(["rollout", "undo", "agent/travel", "--to-revision", "3"])).out).toBe(
    "agent/travel is as in revision 3 already\n",
  );
  const young = await gateway(agent(), REVISIONS.slice(0, 1));
  expect(await young.made.run(["rollout", "undo", "agent/travel"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("only its first revision"),
  });
  expect(young.written).toEqual([]);
});

test.each<[string, object, number, string]>([
  ["it runs", { conditions: [condition("Ready", "True", "Ready")] }, 0, "agent/travel rolled out, revision 3\n"],
  [
    "a new sandbox failed",
    {
      conditions: [
        condition("Ready", "True", "ReplaceFailed"),
        condition("Degraded", "True", "ReplaceFailed", "the new sandbox never said hello"),
      ]
        .toReversed()
        .map((each) => (each.type === "Ready" ? { ...each, status: "False" } : each)),
    },
    1,
    "agent/travel not rolled out, revision 3: the new sandbox never said hello\n",
  ],
])("status: %s", async (_name, status, code, out) => {
  const { made } = await gateway(agent({ status }));
  expect(await made.run(["rollout", "status", "agent/travel"])).toMatchObject({ code, out });
});

test("status waits, says for what, and ends at its deadline", async () => {
  const { made } = await gateway(agent({ status: { conditions: [condition("Ready", "False", "ImageMissing", "beige:1.5 not found")] } }));
  const ran = await made.run(["rollout", "status", "agent/travel", "--timeout", "300ms"]);
  expect(ran).toMatchObject({ code: 6, err: expect.stringContaining("agent/travel waits: ImageMissing: beige:1.5 not found\n") });
  expect((await made.run(["rollout", "status", "agent/travel", "--no-wait"])).code).toBe(1);
});

test("status waits for a replacement that is held back, although the old sandbox is Ready", async () => {
  const message = "sandbox 0123 is replaced by: beige rollout restart agent/travel";
  const conditions = [condition("Ready", "True", "Ready"), condition("Degraded", "True", "ReplacePending", message)];
  const { made } = await gateway(agent({ status: { conditions } }));
  const ran = await made.run(["rollout", "status", "agent/travel", "--timeout", "300ms"]);
  expect(ran).toMatchObject({ code: 6, out: "", err: expect.stringContaining(`agent/travel waits: ReplacePending: ${message}\n`) });
  expect(await made.run(["rollout", "status", "agent/travel", "--no-wait"])).toMatchObject({
    code: 1,
    out: `agent/travel not rolled out, revision 3: ReplacePending: ${message}\n`,
  });
});

test.each([["rollout", "restart"], ["restart"]])(
  "%s %s marks the agent with the time, and a provider has nothing to restart",
  async (...words) => {
    const { made, written } = await gateway();
    const ran = await made.run([...words.filter(Boolean), "agent/travel", "provider/echo"]);
    expect(ran).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^agent\/travel gets a new sandbox.*\nprovider\/echo needs no restart: /),
    });
    expect(written).toMatchObject([{ method: "PATCH", type: "application/merge-patch+json" }]);
    expect(written[0]?.body).toEqual({ metadata: { annotations: { "beige.dev/restarted-at": expect.stringMatching(/^20\d\d-/) } } });
  },
);
