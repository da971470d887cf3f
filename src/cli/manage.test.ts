import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { mergePatch } from "../core/diff.ts";
import { type Asked, json, stand, type Stand } from "./harness.ts";

const stands: Stand[] = [];
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});
async function open(routes: Readonly<Record<string, (asked: Asked) => void>>): Promise<Stand> {
  const made = await stand(routes);
  stands.push(made);
  return made;
}

const BASE = "/apis/beige.dev/v1";
const PATH = `${BASE}/namespaces/default/schedules/morning`;
type Held = { metadata: Record<string, unknown> & { resourceVersion: string }; spec: Record<string, unknown> };
const schedule = (metadata: object = {}, spec: object = {}) => ({
  apiVersion: "beige.dev/v1",
  kind: "Schedule",
  metadata: {
    name: "morning",
    namespace: "default",
    uid: "u-1",
    resourceVersion: "5",
    generation: 1,
    creationTimestamp: "2026-01-01T00:00:00Z",
    ...metadata,
  },
  spec: { agent: "travel", cron: "0 9 * * *", input: "go: ${NOW} $$5", concurrency: "forbid", catchUp: "once", suspend: false, ...spec },
});

interface There {
  readonly made: Stand;
  readonly writes: {
    readonly method: string;
    readonly query: URLSearchParams;
    readonly type: string;
    readonly body: Record<string, unknown>;
  }[];
  object: Held;
}

/** One object behind an API that merges what it gets. */
async function gateway(object: object = schedule(), refuse?: (body: Record<string, unknown>) => object | undefined): Promise<There> {
  const there: There = { made: undefined as unknown as Stand, writes: [], object: object as Held };
  const write = ({ request, response, url, body }: Asked): void => {
    const sent = body as Record<string, unknown>;
    there.writes.push({ method: request.method ?? "", query: url.searchParams, type: request.headers["content-type"] ?? "", body: sent });
    const refused = refuse?.(sent);
    if (refused !== undefined) {
      json(response, refused, (refused as { code?: number }).code ?? 422);
      return;
    }
    const next = (
      request.method === "PUT"
        ? { ...there.object, ...sent, metadata: { ...there.object.metadata, ...(sent["metadata"] as object) } }
        : mergePatch(there.object, sent)
    ) as Held;
    const same = JSON.stringify(next) === JSON.stringify(there.object);
    if (!same) next.metadata = { ...next.metadata, resourceVersion: "6" };
    if (!url.searchParams.has("dryRun")) there.object = next;
    json(response, url.searchParams.has("dryRun") ? { ...next, metadata: { ...next.metadata, resourceVersion: "5" } } : next);
  };
  const made = await open({
    [`GET ${PATH}`]: ({ response }) => json(response, there.object),
    [`PATCH ${PATH}`]: write,
    [`PUT ${PATH}`]: write,
  });
  return Object.assign(there, { made });
}

test("labels are set and removed by a merge patch that names its version", async () => {
  const there = await gateway(schedule({ labels: { old: "x", team: "ops" } }));
  expect(await there.made.run(["label", "schedule/morning", "tier=test", "old-", "team=ops"])).toMatchObject({
    code: 0,
    out: "schedule/morning labeled\n",
  });
  expect(there.object.metadata["labels"]).toEqual({ tier: "test", team: "ops" });
  expect(there.writes).toMatchObject([{ type: "application/merge-patch+json", body: { metadata: { resourceVersion: "5" } } }]);
  expect(there.writes[0]?.query.get("fieldManager")).toBe("label");
  expect((await there.made.run(["label", "sch", "morning", "--list"])).out).toBe("team=ops\ntier=test\n");
});

test("a value that is there is replaced only with --overwrite", async () => {
  const there = await gateway(schedule({ annotations: { "example.com/owner": "ann" } }));
  const refused = await there.made.run(["annotate", "schedule/morning", "example.com/owner=bob"]);
  expect(refused).toMatchObject({ code: 3, err: expect.stringContaining("--overwrite replaces it") });
  expect(there.writes).toEqual([]);
  expect((await there.made.run(["annotate", "schedule/morning", "example.com/owner=bob", "--overwrite"])).out).toBe(
    "schedule/morning annotated\n",
  );
  expect(there.object.metadata["annotations"]).toEqual({ "example.com/owner": "bob" });
});

test.each<[string[], RegExp]>([
  [["schedule/morning"], /no labels given/],
  [["a=b"], /needs an object/],
  [["schedules", "a=b"], /label needs names/],
  [["schedule/morning", "a=b", "c"], /"c" is neither KEY=VALUE nor KEY-/],
  [["schedule/morning", "=b"], /is no key/],
  [["schedule/morning", "a b=c"], /is no key/],
  [["schedule/morning", "a=1", "a=2"], /said twice/],
  [["schedule/morning", "a=1", "a-"], /said twice/],
])("label %j is refused before anything is written, exit 2", async (args, why) => {
  const there = await gateway();
  const ran = await there.made.run(["label", ...args]);
  expect([ran.code, there.writes]).toEqual([2, []]);
  expect(ran.err).toMatch(why);
});

test("a patch is sent as its type, and one that changes nothing says so", async () => {
  const there = await gateway();
  expect((await there.made.run(["patch", "schedule/morning", "-p", '{"spec":{"suspend":true}}'])).out).toBe("schedule/morning patched\n");
  expect((await there.made.run(["patch", "schedule/morning", "-p", '{"spec":{"suspend":true}}'])).out).toBe(
    "schedule/morning patched (no change)\n",
  );
  expect((await there.made.run(["patch", "schedule/morning", "-p", '{"spec":{"suspend":false}}', "--dry-run"])).out).toBe(
    "schedule/morning patched (dry run)\n",
  );
  expect(there.object.spec["suspend"]).toBe(true);
  await there.made.run(["patch", "schedule/morning", "--type", "json", "--patch-file", "-"], {
    stdin: '[{"op":"test","path":"/spec/suspend","value":true}]',
  });
  expect(there.writes.map((each) => each.type)).toEqual([
    ...Array.from({ length: 3 }, () => "application/merge-patch+json"),
    "application/json-patch+json",
  ]);
  expect(there.writes.at(-1)?.body).toEqual([{ op: "test", path: "/spec/suspend", value: true }]);
});

test("a patch may be YAML, and reads as strictly as a manifest does", async () => {
  const there = await gateway();
  expect((await there.made.run(["patch", "schedule/morning", "-p", "spec: {suspend: true}"])).code).toBe(0);
  expect(there.writes.at(-1)?.body).toEqual({ spec: { suspend: true } });
  expect((await there.made.run(["patch", "schedule/morning", "-p", "spec: {a: 1, a: 2}"])).code).toBe(2);
});

test.each<[string[], RegExp]>([
  [[], /give -p PATCH/],
  [["-p", "{}", "--patch-file", "x"], /give -p PATCH/],
  [["-p", "spec: [}"], /neither JSON nor YAML/],
  [["-p", "[]"], /a merge patch is an object/],
  [["-p", "{}", "--type", "json"], /a list of operations/],
  [["-p", "{}", "--type", "strategic"], /--type is one of merge, json/],
  [["--patch-file", "/nowhere/x.json"], /cannot read/],
])("patch %j is refused before anything is written", async (args, why) => {
  const there = await gateway();
  const ran = await there.made.run(["patch", "schedule/morning", ...args]);
  expect([ran.code, there.writes]).toEqual([2, []]);
  expect(ran.err).toMatch(why);
});

/** An editor that runs these lines of shell, one script a time it is opened; the file is $1. */
function editor(made: Stand, ...scripts: readonly string[]): Readonly<Record<string, string>> {
  const path = join(made.home, "editor");
  const cases = scripts.map((script, i) => `${i}) ${script} ;;`).join("\n");
  writeFileSync(
    path,
    `#!/bin/sh\nn=$(cat ${made.home}/opened 2>/dev/null | wc -l)\ncp "$1" ${made.home}/seen-$n\necho x >> ${made.home}/opened\ncase $n in\n${cases}\nesac\n`,
  );
  chmodSync(path, 0o755);
  return { EDITOR: path, TMPDIR: made.home };
}
const kept = (made: Stand): readonly string[] => readdirSync(made.home).filter((name) => name.startsWith("beige-edit-"));

test("edit opens what a manifest would hold and writes it back under the version that was read", async () => {
  const there = await gateway();
  const ran = await there.made.run(["edit", "schedule/morning"], {
    env: editor(there.made, `sed -i 's/suspend: false/suspend: true/' "$1"`),
  });
  expect(ran).toMatchObject({ code: 0, out: "schedule/morning edited\n" });
  expect(there.writes).toMatchObject([
    {
      method: "PUT",
      body: { metadata: { name: "morning", uid: "u-1", resourceVersion: "5" }, spec: { suspend: true, input: "go: ${NOW} $$5" } },
    },
  ]);
  expect(readFileSync(join(there.made.home, "seen-0"), "utf8")).not.toMatch(/managedFields|creationTimestamp|status/);
  expect(kept(there.made)).toEqual([]);
});

test.each([
  ["left as it is", "true"],
  ["emptied", `: > "$1"`],
  ["removed", `rm "$1"`],
])("a text that is %s cancels the edit", async (_name, script) => {
  const there = await gateway();
  const ran = await there.made.run(["edit", "schedule/morning"], { env: editor(there.made, script) });
  expect([ran.code, ran.out, there.writes]).toEqual([0, "schedule/morning edit cancelled: nothing was changed\n", []]);
});

test("a mistake opens the editor again with the error on top and the text as it was written", async () => {
  const there = await gateway();
  const env = editor(there.made, `sed -i 's/suspend: false/suspent: true/' "$1"`, `sed -i 's/suspent/suspend/' "$1"`);
  const ran = await there.made.run(["edit", "schedule/morning"], { env });
  expect([ran.code, ran.out, there.writes.length]).toEqual([0, "schedule/morning edited\n", 1]);
  const again = readFileSync(join(there.made.home, "seen-1"), "utf8");
  expect(again).toMatch(/^#\| error: unknown field "suspent"/);
  const line = Number(/^#\|\s+--> (\d+):/m.exec(again)?.[1]);
  expect(again.split("\n")[line - 1]).toContain("suspent: true");
});

test("what the gateway refuses is on top as well", async () => {
  let times = 0;
  const there = await gateway(schedule(), () =>
    times++ === 0 ? { kind: "Status", reason: "Invalid", message: "agent travel is odd", code: 422 } : undefined,
  );
  const env = editor(there.made, `sed -i 's/travel/trips/' "$1"`, `sed -i 's/trips/tours/' "$1"`);
  expect((await there.made.run(["edit", "schedule/morning"], { env })).code).toBe(0);
  expect(readFileSync(join(there.made.home, "seen-1"), "utf8")).toMatch(/^#\| error: agent travel is odd/);
  expect(there.object.spec["agent"]).toBe("tours");
});

test.each<[string, string[], RegExp, number]>([
  ["the same mistake twice", [`sed -i 's/suspend: false/suspent: true/' "$1"`, "true"], /as wrong as before/, 2],
  ["another name", [`sed -i 's/name: morning/name: evening/' "$1"`, "true"], /as wrong as before/, 2],
  ["an editor that fails", [`sed -i 's/travel/trips/' "$1"; exit 3`], /ended with 3/, 2],
])("%s changes nothing and keeps the text", async (_name, scripts, why, code) => {
  const there = await gateway();
  const ran = await there.made.run(["edit", "schedule/morning"], { env: editor(there.made, ...scripts) });
  expect([ran.code, there.writes]).toEqual([code, []]);
  expect(ran.err).toMatch(why);
  const file = /your text is kept in (\S+)/.exec(ran.err)?.[1] ?? "";
  expect(existsSync(file)).toBe(true);
});

test("an object that was changed meanwhile is not overwritten: the text is kept, exit 3", async () => {
  const there = await gateway(schedule(), () => ({
    kind: "Status",
    reason: "Conflict",
    message: "schedule/morning was changed meanwhile",
    code: 409,
  }));
  const ran = await there.made.run(["edit", "schedule/morning"], { env: editor(there.made, `sed -i 's/travel/trips/' "$1"`) });
  expect(ran).toMatchObject({ code: 3, err: expect.stringMatching(/changed meanwhile[\s\S]*your text is kept in/) });
});

const list = (items: readonly object[]) => ({ kind: "List", items, metadata: { resourceVersion: "9" } });
const three = [
  schedule({ name: "b", labels: { team: "ops" } }, { agent: "x", n: 10 }),
  schedule({ name: "c" }, { agent: "y", n: 9 }),
  schedule({ name: "a", labels: { team: "dev" } }, { agent: "z" }),
];

test("custom columns and sort-by follow paths as kubectl writes them", async () => {
  const made = await open({ [`GET ${BASE}/namespaces/default/schedules`]: ({ response }) => json(response, list(three)) });
  const run = (...args: string[]) => made.run(["get", "sch", ...args]);
  expect((await run("-o", "custom-columns=NAME:.metadata.name,N:.spec.n,TEAM:{.metadata.labels.team}")).out).toBe(
    "NAME   N        TEAM\nb      10       ops\nc      9        <none>\na      <none>   dev\n",
  );
  for (const path of [".metadata.name", "{.metadata.name}", "metadata.name"])
    expect((await run("-o", "name", "--sort-by", path)).out).toBe("schedule/a\nschedule/b\nschedule/c\n");
  expect((await run("-o", "name", "--sort-by=.spec.n")).out).toBe("schedule/a\nschedule/c\nschedule/b\n");
  expect((await run("-o", "custom-columns=NAME")).code).toBe(2);
  expect((await run("-o", "custom-columns=A:.x[")).code).toBe(2);
});

test("tables are sorted by the objects behind their rows, with a column for a label", async () => {
  const made = await open({
    [`GET ${BASE}/namespaces/default/schedules`]: ({ response, url }) => {
      const whole = url.searchParams.get("includeObject") === "Object";
      const rows = three.map((object) => ({ cells: [object.metadata.name], object: whole ? object : { metadata: object.metadata } }));
      json(response, { kind: "Table", columnDefinitions: [{ name: "Name" }], rows });
    },
  });
  expect((await made.run(["get", "sch", "--sort-by", ".spec.agent", "-L", "team"])).out).toBe("NAME   TEAM\nb      ops\nc\na      dev\n");
  expect((await made.run(["get", "sch", "--sort-by", ".metadata.name"])).out).toBe("NAME\na\nb\nc\n");
});

test("wait goes on until an object is there and has a value", async () => {
  let looks = 0;
  const made = await open({
    [`GET ${PATH}`]: ({ response }) => {
      looks += 1;
      if (looks < 3) json(response, { kind: "Status", reason: "NotFound", message: "no", code: 404 }, 404);
      else json(response, schedule({}, { phase: looks < 5 ? "one" : "two" }));
    },
  });
  const ran = await made.run(["wait", "schedule/morning", "--for=jsonpath={.spec.phase}=two"]);
  expect(ran).toMatchObject({
    code: 0,
    out: "schedule/morning is two at {.spec.phase}\n",
    err: "schedule/morning does not exist yet: waiting\n",
  });
  expect(looks).toBe(5);
  expect((await made.run(["wait", "schedule/morning", "--for=create"])).out).toBe("schedule/morning is there\n");
  expect((await made.run(["wait", "schedule/morning", "--for=jsonpath='{.spec.phase}'"])).code).toBe(0);
  expect(await made.run(["wait", "schedule/morning", "--for=jsonpath={.spec.phase}=three", "--timeout", "200ms"])).toMatchObject({
    code: 6,
    err: expect.stringContaining("it is two"),
  });
  expect(await made.run(["wait", "schedule/none", "--for=Ready", "--timeout", "200ms"])).toMatchObject({
    code: 6,
    err: expect.stringContaining("it does not exist yet"),
  });
  expect((await made.run(["wait", "schedule/morning", "--for=jsonpath="])).code).toBe(2);
  expect((await made.run(["wait", "schedule/morning", "--for=jsonpath={.a[b]}"])).code).toBe(2);
  const late = await made.run(["wait", "schedule/morning", "--for=jsonpath={.metadata.list[2].x}=1", "--timeout", "200ms"]);
  expect(late).toMatchObject({ code: 6, err: expect.stringContaining("there is nothing yet") });
});

const condition = (status: string, reason = "Ready", message = "") => ({
  conditions: [{ type: "Ready", status, reason, message, observedGeneration: 1, lastTransitionTime: "" }],
});
const managed = { managedFields: [{ manager: "source/stacks" }] };

test("tree shows what a source holds, what agents use and when schedules are next", async () => {
  const agent = (name: string, status: object, tools: string[] = []) => ({
    kind: "Agent",
    metadata: { name, namespace: "default", ...managed },
    spec: { model: { provider: "echo" }, tools },
    status,
  });
  const of: Readonly<Record<string, readonly object[]>> = {
    sources: [{ metadata: { name: "stacks" }, spec: {}, status: { ...condition("True"), observed: { revision: "main@3f9c2a1" } } }],
    providers: [{ metadata: { name: "echo", ...managed }, spec: {}, status: condition("True") }],
    plugins: [{ metadata: { name: "notes" }, spec: {}, status: { ...condition("True"), observed: { tools: ["remember"] } } }],
    agents: [
      agent("travel", { ...condition("True"), observed: { container: "4f2a9c", image: "beige:1" } }, ["remember", "lost"]),
      agent("nightly", condition("False", "ImageMissing", "image beige:1.5 not found\u001b[31m")),
    ],
    schedules: [{ ...schedule(managed), status: { ...condition("True"), observed: { next: "Tue 09:00" } } }],
  };
  const routes = Object.fromEntries(
    Object.entries(of).map(([plural, items]) => [`GET ${BASE}/${plural}`, ({ response }: Asked) => json(response, list(items))]),
  );
  const made = await open(routes);
  expect((await made.run(["tree", "source/stacks"])).out).toBe(
    [
      "source/stacks                                     READY  main@3f9c2a1",
      "├─ provider/echo                                  READY",
      "├─ agent/travel                                   READY",
      "│  ├─ uses provider/echo, plugin/notes, tool lost (nobody brings it)",
      "│  ├─ sandbox 4f2a9c                              beige:1",
      "│  └─ schedule/morning                            READY  next Tue 09:00",
      "└─ agent/nightly                                  NOT READY  image beige:1.5 not found[31m",
      "   └─ uses provider/echo",
      "",
    ]
      .join("\n")
      .replaceAll(/^(.{0,60}?) {2,}(READY|NOT READY|beige:1)/gm, (_, left: string, right: string) => `${left.padEnd(22)}  ${right}`),
  );
  expect((await made.run(["tree", "provider/echo"])).out).toContain("├─ used by agent/travel");
  expect((await made.run(["tree", "agent/travel"])).out.split("\n")[1]).toMatch(/^├─ owned by source\/stacks +READY {2}main@3f9c2a1$/);
  expect(await made.run(["tree", "agent/none"])).toMatchObject({ code: 1 });
  expect((await made.run(["tree", "source/stacks"])).out).not.toContain("\u001b");
});

test("a delete names who uses what goes, unless they go too", async () => {
  const agent = (name: string, spec: object) => ({
    kind: "Agent",
    metadata: { name, namespace: "default" },
    spec: { model: { provider: "x" }, ...spec },
  });
  const agents = [
    agent("a", { fallbacks: [{ provider: "echo" }] }),
    agent("b", { model: { provider: "echo" } }),
    agent("c", { tools: ["remember"] }),
  ];
  const gone: string[] = [];
  const at = (path: string, object: object): Readonly<Record<string, (asked: Asked) => void>> => ({
    [`GET ${path}`]: ({ response }) => json(response, object, gone.includes(path) ? 404 : 200),
    [`DELETE ${path}`]: ({ response, url }) => {
      if (url.search === "") gone.push(path);
      json(response, object);
    },
  });
  const made = await open({
    [`GET ${BASE}/agents`]: ({ response }) => json(response, list(agents)),
    [`GET ${BASE}/schedules`]: ({ response }) => json(response, list([schedule({}, { agent: "b" })])),
    ...at(`${BASE}/providers/echo`, {}),
    ...at(`${BASE}/plugins/notes`, { metadata: { name: "notes" }, status: { observed: { tools: ["remember"] } } }),
    ...at(`${BASE}/namespaces/default/agents/b`, {}),
    ...at(`${BASE}/namespaces/default/agents/a`, {}),
  });
  expect(await made.run(["delete", "provider/echo", "--dry-run"])).toEqual({
    code: 0,
    signal: null,
    out: "provider/echo deleted (dry run)\n",
    err: "provider/echo is used by agent/a, agent/b: not Ready without it\n",
  });
  expect((await made.run(["delete", "plugin/notes", "--dry-run"])).err).toBe("plugin/notes is used by agent/c: not Ready without it\n");
  expect((await made.run(["delete", "agent/a", "--dry-run"])).err).toBe("");
  const all = await made.run(["delete", "agent/b", "agent/a", "provider/echo", "--yes"]);
  expect([all.code, all.err]).toEqual([0, "agent/b is used by schedule/morning: not Ready without it\n"]);
});

test("explain tells type, default, impact and example, with or without spec in the path, and needs no gateway", async () => {
  const made = await stand();
  stands.push(made);
  const out = async (path: string) => (await made.run(["explain", path])).out;
  const memory = await out("agent.sandbox.resources.memory");
  expect(memory).toContain("agent.spec.sandbox.resources.memory   <string | integer>");
  for (const part of ['default  "3Gi"', "a change is made in place", 'memory: "3Gi"']) expect(memory).toContain(part);
  expect(await out("ag.spec.sandbox.mounts[0].target")).toContain("a change replaces the sandbox");
  expect(await out("provider.spec.apiKey")).toContain("a reference; a literal is refused");
  expect(await out("agent.sandbox.scope")).toContain("session (not in this version)");
  expect(await made.run(["explain", "agent.sandbx"])).toMatchObject({ code: 2, err: expect.stringContaining('did you mean "sandbox"') });
  expect(await made.run(["explain", "agnt"])).toMatchObject({ code: 2, err: expect.stringContaining("did you mean") });
  expect((await made.run(["api-resources", "-o", "name"])).out).toBe("providers\nplugins\nagents\nschedules\nsources\n");
});
