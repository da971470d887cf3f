import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { ApplyEvent } from "../core/control.ts";
import type { TurnEvent } from "../core/turn.ts";
import { type Asked, json, ndjson, stand, type Stand } from "./harness.ts";

const stands: Stand[] = [];
async function open(routes?: Readonly<Record<string, (asked: Asked) => void>>): Promise<Stand> {
  const made = await stand(routes);
  stands.push(made);
  return made;
}
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});

const AGENTS = "/apis/beige.dev/v1/namespaces/default/agents";
const agent = (name: string, more: object = {}) => ({
  apiVersion: "beige.dev/v1",
  kind: "Agent",
  metadata: { name, namespace: "default", generation: 1, resourceVersion: "7" },
  spec: { instructions: "cost: ${X} $$5" },
  ...more,
});
const ready = (status: string, generation = 1) => ({
  status: {
    observedGeneration: generation,
    conditions: [
      {
        type: "Ready",
        status,
        reason: status === "True" ? "Ready" : "ImageMissing",
        message: status === "True" ? "" : "beige:1.5 not found",
        observedGeneration: generation,
      },
    ],
  },
});
const end = (more: Partial<Extract<ApplyEvent, { type: "end" }>> = {}) => ({
  type: "end",
  exit: 0,
  applied: 1,
  unchanged: 2,
  failed: 0,
  message: "",
  ...more,
});
const plan = (verb: string, more: object = {}) => ({
  type: "plan",
  plan: {
    objects: [
      { ref: { kind: "Agent", namespace: "default", name: "a" }, verb, why: ["spec"], fields: [], drift: [], actions: [], ...more },
    ],
    left: [],
    summary: {
      create: verb === "create" ? 1 : 0,
      update: verb === "update" ? 1 : 0,
      replace: 0,
      delete: verb === "delete" ? 1 : 0,
      unchanged: verb === "unchanged" ? 1 : 0,
    },
  },
});

test("300 KB of output go through a pipe whole, also when the exit code is not 0", async () => {
  const items = Array.from({ length: 1000 }, (_, i) => agent(`a${i}`, { spec: { instructions: "x".repeat(300) } }));
  const made = await open({ [`GET ${AGENTS}`]: ({ response }) => json(response, { kind: "List", items }) });
  const ran = await made.run(["get", "agents", "-o", "json"]);
  expect(ran.code).toBe(0);
  expect((JSON.parse(ran.out) as { items: unknown[] }).items).toHaveLength(1000);
  const diff = await open({
    "POST /api/apply": ({ response }) => ndjson(response, [plan("update", { message: "x".repeat(300_000) }), end({ applied: 0 })]),
  });
  writeFileSync(join(diff.home, "a.yaml"), "kind: Agent\n");
  const changed = await diff.run(["diff", "-f", "a.yaml", "-o", "json"]);
  expect(changed.code).toBe(1);
  expect(changed.out.length).toBeGreaterThan(300_000);
  JSON.parse(changed.out);
});

test("a reader that goes away ends the program quietly with 141", async () => {
  const items = Array.from({ length: 20_000 }, (_, i) => agent(`a${i}`));
  const made = await open({ [`GET ${AGENTS}`]: ({ response }) => json(response, { kind: "List", items }) });
  const child = made.start(["get", "agents", "-o", "json"]);
  let err = "";
  child.stderr?.on("data", (part: Buffer) => (err += part.toString()));
  child.stdout?.once("data", () => child.stdout?.destroy());
  const code = await new Promise((done) => child.on("exit", done));
  expect({ code, err }).toEqual({ code: 141, err: "" });
});

test("get shows the table of the gateway, and names without decoration", async () => {
  const table = {
    kind: "Table",
    columnDefinitions: [
      { name: "Name", priority: 0 },
      { name: "Ready", priority: 0 },
      { name: "Image", priority: 1 },
      { name: "Why", priority: 0 },
    ],
    rows: [
      {
        cells: ["travel", "no", "beige:1", "\u001B[31mimage beige:1.5 not found"],
        object: { metadata: { name: "travel", namespace: "default" } },
      },
    ],
  };
  const made = await open({
    [`GET ${AGENTS}`]: ({ request, response }) =>
      json(response, request.headers.accept?.includes("as=Table") ? table : { items: [agent("travel"), agent("b")] }),
  });
  expect((await made.run(["get", "ag"])).out).toBe("NAME     READY   WHY\ntravel   no      [31mimage beige:1.5 not found\n");
  expect((await made.run(["get", "agents", "-o", "wide"])).out).toContain("beige:1");
  expect((await made.run(["get", "agents", "-o", "name"])).out).toBe("agent/travel\nagent/b\n");
  expect((await made.run(["get", "agents", "-o", "jsonpath={.items[*].metadata.name}"])).out).toBe("travel b");
});

test("-o yaml is a manifest: nothing that the gateway added, and variables do not come to life", async () => {
  const made = await open({ [`GET ${AGENTS}/travel`]: ({ response }) => json(response, agent("travel", ready("True"))) });
  const ran = await made.run(["get", "agent/travel", "-o", "yaml"]);
  expect(ran.out).toBe(
    'apiVersion: beige.dev/v1\nkind: Agent\nmetadata:\n  name: travel\n  namespace: default\nspec:\n  instructions: "cost: $${X} $$$5"\n',
  );
});

test("an unknown kind, a bad name and an object that is not there say so, each with its exit code", async () => {
  const made = await open({
    "GET /api/kinds": ({ response }) => json(response, [{ kind: "Agent", plural: "agents", short: ["ag"], namespaced: true }]),
  });
  expect(await made.run(["get", "agnts"])).toMatchObject({ code: 2, err: expect.stringContaining('did you mean "agents"') as string });
  expect(await made.run(["get", "agent/../evil"])).toMatchObject({ code: 2 });
  expect(await made.run(["get", "agent/none"])).toMatchObject({ code: 1, out: "" });
  const asJson = await made.run(["get", "agent/none", "-o", "json"]);
  expect(JSON.parse(asJson.err)).toMatchObject({ error: { code: "not_found" } });
});

test("no gateway is exit 5, and apply --no-start does not start one", async () => {
  const made = await open();
  writeFileSync(join(made.home, "a.yaml"), "kind: Agent\n");
  expect(await made.run(["get", "agents"])).toMatchObject({ code: 5, err: expect.stringContaining("beige gateway start") as string });
  expect(await made.run(["apply", "-f", "a.yaml", "--no-start"])).toMatchObject({ code: 5 });
  expect(existsSync(join(made.home, "gateway.pid"))).toBe(false);
});

test("apply sends text, folder and only the variables it names, and prints a line an object", async () => {
  let sent: unknown;
  const made = await open({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response, body }) => {
      sent = body;
      ndjson(response, [
        plan("create"),
        {
          type: "progress",
          ref: { kind: "Agent", namespace: "default", name: "a" },
          verb: "create",
          state: "ready",
          reason: "",
          message: "sandbox ready in 1.4 s",
          elapsedMs: 1400,
        },
        end(),
      ]);
    },
  });
  writeFileSync(join(made.home, "a.yaml"), "x: ${NAMED}\n");
  const ran = await made.run(["apply", "-f", "a.yaml", "--set", "ops", "--timeout", "90s"], { env: { NAMED: "v", SECRET: "s3cr3t" } });
  expect(ran).toMatchObject({ code: 0, err: "" });
  expect(ran.out).toMatch(/^agent\/a created \(sandbox ready in 1\.4 s\)\napplied 1, unchanged 2, failed 0 in \d+\.\d s\n$/);
  expect(sent).toEqual({
    files: [{ name: "a.yaml", folder: made.home, text: "x: ${NAMED}\n", vars: { NAMED: "v" }, files: {} }],
    set: "ops",
    dryRun: false,
    forceConflicts: false,
    prune: false,
    wait: true,
    timeoutMs: 90_000,
  });
});

test("files that the gateway asks for are sent from below the manifest's folder, and from nowhere else", async () => {
  const bodies: { files: { files: Record<string, string> }[] }[] = [];
  const routes = (path: string) => ({
    "GET /api/health": ({ response }: Asked) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response, body }: Asked) => {
      const { files } = body as (typeof bodies)[number];
      bodies.push({ files });
      ndjson(
        response,
        files[0]?.files[path] === undefined
          ? [{ type: "needFiles", files: [{ manifest: "s/a.yaml", path }] }]
          : [plan("unchanged"), end({ applied: 0 })],
      );
    },
  });
  const made = await open(routes("./text.md"));
  mkdirSync(join(made.home, "s"));
  writeFileSync(join(made.home, "s/a.yaml"), "x: 1\n");
  writeFileSync(join(made.home, "s/text.md"), "You plan trips.");
  expect(await made.run(["apply", "-f", "s/a.yaml"])).toMatchObject({ code: 0 });
  expect(bodies.at(-1)?.files[0]?.files).toEqual({ "./text.md": "You plan trips." });
  bodies.length = 0;
  const evil = await open(routes("link.md"));
  mkdirSync(join(evil.home, "s"));
  writeFileSync(join(evil.home, "s/a.yaml"), "x: 1\n");
  symlinkSync("/etc/hostname", join(evil.home, "s/link.md"));
  expect(await evil.run(["apply", "-f", "s/a.yaml"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("outside the manifest's folder") as string,
  });
  expect(bodies).toHaveLength(1);
});

test("problems are all shown with their place, and the exit code is the gateway's word", async () => {
  const problem = {
    message: 'unknown field "tool"',
    at: { file: "a.yaml", line: 1, column: 1 },
    line: "tool: [git]",
    object: "Agent/travel",
    hint: 'did you mean "tools"?',
  };
  const made = await open({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response }) =>
      ndjson(response, [
        { type: "problems", problems: [problem, problem] },
        end({ exit: 2, applied: 0, unchanged: 0, message: "2 problems" }),
      ]),
  });
  writeFileSync(join(made.home, "a.yaml"), "tool: [git]\n");
  const ran = await made.run(["apply", "-f", "a.yaml"]);
  expect(ran.code).toBe(2);
  expect(ran.err).toContain('error: unknown field "tool"\n  --> a.yaml:1:1');
  expect(ran.err).toContain("2 problems. Nothing was changed.");
  expect((await made.run(["diff", "-f", "a.yaml"])).code).toBe(2);
});

test.each([3, 6, 7, 1])("an apply that ends with %i exits with it and says why", async (exit) => {
  const made = await open({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response }) =>
      ndjson(response, [
        plan("update"),
        end({ exit, failed: 1, message: "agent/a is owned by source/x", hint: "--force-conflicts takes it" }),
      ]),
  });
  writeFileSync(join(made.home, "a.yaml"), "a: 1\n");
  const ran = await made.run(["apply", "-f", "a.yaml"]);
  expect(ran).toMatchObject({ code: exit, err: "error: agent/a is owned by source/x\nfix:  --force-conflicts takes it\n" });
  // 0 and 1 of diff speak of differences alone.
  expect((await made.run(["diff", "-f", "a.yaml"])).code).toBe(Math.max(exit, exit === 1 ? 1 : 2));
});

test("what failed is named after the sum, which is said once; of what is kept the first are named", async () => {
  const left = ["a", "b", "c", "d", "e", "f", "g"].map((name) => ({ kind: "Agent", namespace: "default", name }));
  const sum = "applied 0, unchanged 0, failed 1";
  const made = await open({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response }) => {
      const { plan: planned, ...rest } = plan("create");
      ndjson(response, [
        { ...rest, plan: { ...planned, left } },
        end({ exit: 7, applied: 0, unchanged: 0, failed: 1, message: `${sum}: agent/x: no image`, hint: "beige describe agent/x" }),
      ]);
    },
  });
  writeFileSync(join(made.home, "a.yaml"), "a: 1\n");
  const ran = await made.run(["apply", "-f", "a.yaml"]);
  expect(ran.out).toContain(`${sum} in `);
  expect(ran.err).toBe(
    "no longer in the manifests, kept: agent/a agent/b agent/c agent/d agent/e and 2 more   (--prune deletes)\nerror: agent/x: no image\nfix:  beige describe agent/x\n",
  );
});

test("a stream that is cut is no success", async () => {
  const made = await open({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response }) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.write(`${JSON.stringify(plan("create"))}\n`, () => response.socket?.destroy());
    },
    "POST /api/agents/a/prompt": ({ response }) => ndjson(response, [{ type: "text", delta: "half an ans" }]),
  });
  writeFileSync(join(made.home, "a.yaml"), "a: 1\n");
  expect(await made.run(["apply", "-f", "a.yaml"])).toMatchObject({ code: 5 });
  expect(await made.run(["prompt", "a", "hi"])).toMatchObject({ code: 5, out: "half an ans\n" });
});

test("Ctrl-C during an apply says what goes on, and ends with 130", async () => {
  const made = await open({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response }) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.write(`${JSON.stringify(plan("create"))}\n`);
    },
  });
  writeFileSync(join(made.home, "a.yaml"), "a: 1\n");
  const child = made.start(["apply", "-f", join(made.home, "a.yaml")]);
  let err = "";
  child.stderr?.on("data", (part: Buffer) => (err += part.toString()));
  await expect.poll(() => made.asked.includes("POST /api/apply"), { timeout: 10_000 }).toBe(true);
  await new Promise((done) => setTimeout(done, 100));
  child.kill("SIGINT");
  const code = await new Promise((done) => child.on("exit", done));
  expect({ code, err }).toEqual({ code: 130, err: expect.stringContaining("apply goes on in the gateway: beige wait -f") as string });
});

test("deleting several objects without anyone to ask is refused, and --yes does it", async () => {
  const gone = new Set<string>();
  const routes = Object.fromEntries(
    ["a", "b"].flatMap((name) => [
      [
        `DELETE ${AGENTS}/${name}`,
        ({ response }: Asked) =>
          gone.has(name)
            ? json(response, { reason: "NotFound", message: "not found" }, 404)
            : (gone.add(name), json(response, agent(name))),
      ],
      [`GET ${AGENTS}/${name}`, ({ response }: Asked) => json(response, agent(name), gone.has(name) ? 404 : 200)],
    ]),
  );
  const made = await open(routes);
  expect(await made.run(["delete", "agent", "a", "b"])).toMatchObject({ code: 2, err: expect.stringContaining("--yes") as string });
  expect(gone.size).toBe(0);
  expect(await made.run(["delete", "agent", "a", "b", "--yes"])).toMatchObject({ code: 0, out: "agent/a deleted\nagent/b deleted\n" });
  expect(await made.run(["delete", "agent/a"])).toMatchObject({ code: 1 });
  expect(await made.run(["delete", "agent/a", "--ignore-not-found"])).toMatchObject({ code: 0 });
});

test("delete -f takes users down before what they use", async () => {
  const asked: string[] = [];
  const route =
    (path: string) =>
    ({ response }: Asked) => {
      asked.push(path);
      json(response, { kind: "Status", status: "Success" });
    };
  const made = await open({ [`DELETE ${AGENTS}/a`]: route("agent"), "DELETE /apis/beige.dev/v1/providers/p": route("provider") });
  writeFileSync(join(made.home, "s.yaml"), "kind: Agent\nmetadata: {name: a}\n---\nkind: Provider\nmetadata: {name: p}\n");
  expect(await made.run(["delete", "-f", "s.yaml", "--yes", "--no-wait"])).toMatchObject({ code: 0 });
  expect(asked).toEqual(["agent", "provider"]);
});

test("wait ends when the newest spec is Ready, and says what was missing when the time is over", async () => {
  let looks = 0;
  const made = await open({
    [`GET ${AGENTS}/a`]: ({ response }) =>
      json(response, agent("a", { metadata: { name: "a", generation: 2 }, ...ready("True", ++looks < 3 ? 1 : 2) })),
    [`GET ${AGENTS}/b`]: ({ response }) => json(response, agent("b", ready("False"))),
  });
  expect(await made.run(["wait", "agent/a"])).toMatchObject({ code: 0, out: "agent/a is Ready\n" });
  expect(looks).toBe(3);
  expect(await made.run(["wait", "agent/b", "--timeout", "300ms"])).toMatchObject({
    code: 6,
    err: expect.stringContaining("ImageMissing: beige:1.5 not found") as string,
  });
  expect(await made.run(["wait", "agent/none", "--timeout", "300ms"])).toMatchObject({ code: 6 });
  expect(await made.run(["wait", "agent/none", "--for=delete"])).toMatchObject({ code: 0, out: "agent/none is gone\n" });
  expect(await made.run(["wait", "agent/b", "--for", "condition=Ready=False"])).toMatchObject({ code: 0 });
  expect(await made.run(["wait", "agent/b", "--for", "lunch=later"])).toMatchObject({ code: 2 });
});

const done: TurnEvent = {
  type: "done",
  text: "It is sunny.",
  stop: "stop",
  provider: "echo",
  model: "echo",
  usage: {
    input: 1,
    output: 1,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 2,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  },
};

test("prompt streams the answer to standard output and the tools to standard error", async () => {
  let sent: unknown;
  const made = await open({
    "POST /api/agents/team.a/prompt": ({ response, body }) => {
      sent = body;
      const events: TurnEvent[] = [
        { type: "session", session: "cli:x", inbox: "1" },
        { type: "tool_start", id: "1", tool: "exec", args: { command: "date" } },
        { type: "tool_end", id: "1", tool: "exec", failed: true, output: "no date" },
        { type: "model", provider: "b", id: "m", fallback: true },
        { type: "text", delta: "It is " },
        { type: "text", delta: "sunny." },
        done,
      ];
      ndjson(response, events);
    },
  });
  const ran = await made.run(["prompt", "a", "how", "is it?", "-n", "team", "-s", "cli:x", "--new"]);
  expect(ran).toMatchObject({
    code: 0,
    out: "It is sunny.\n",
    err: '-> exec {"command":"date"}\nx exec failed: no date\n! answered by b/m, a fallback\n'
      .replace("->", "→")
      .replace("x exec", "✖ exec"),
  });
  expect(sent).toEqual({ text: "how is it?", session: "cli:x", fresh: true });
  const piped = await made.run(["prompt", "agent/team.a", "-o", "json"], { stdin: "from a pipe" });
  expect(sent).toEqual({ text: "from a pipe", fresh: false });
  expect(
    piped.out
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as TurnEvent).type),
  ).toEqual(["session", "tool_start", "tool_end", "model", "text", "text", "done"]);
  expect(await made.run(["prompt", "a"], { stdin: " \n" })).toMatchObject({ code: 2 });
});

test("a turn that fails exits by its code and keeps what was said", async () => {
  const made = await open({
    "POST /api/agents/a/prompt": ({ response }) =>
      ndjson(response, [
        { type: "text", delta: "I wa" },
        { type: "error", code: "exhausted", message: "budget of agent a is used up", hint: "raise spec.budget" },
      ]),
  });
  expect(await made.run(["prompt", "a", "hi"])).toMatchObject({
    code: 8,
    out: "I wa\n",
    err: "error: budget of agent a is used up\nfix:  raise spec.budget\n",
  });
});

test("exec -o json answers when all is over, and passes the words on as they are, and the inner exit code back", async () => {
  let sent: unknown;
  const ran = { content: [{ type: "text", text: "out\n" }], exitCode: 42, success: false, outcome: "failed", call: "c" };
  const made = await open({
    "POST /api/agents/a/exec": ({ response, body }) => {
      sent = body;
      json(response, ran);
    },
  });
  const whole = await made.run(["exec", "a", "-o", "json", "--", "printf", "it's $HOME", "-l"]);
  expect([whole.code, JSON.parse(whole.out)]).toEqual([42, ran]);
  expect(sent).toEqual({ command: "printf 'it'\\''s $HOME' -l", timeout: 120 });
  await made.run(["exec", "a", "-o", "json", "--timeout", "5m", "--cwd", "/data", "--", "ls | wc -l"]);
  expect(sent).toEqual({ command: "ls | wc -l", timeout: 300, cwd: "/data" });
  expect(await made.run(["exec", "a"])).toMatchObject({ code: 2 });
  for (const flag of ["-i", "-t"]) expect(await made.run(["exec", flag, "a", "-o", "json", "--", "x"])).toMatchObject({ code: 2 });
});

test("get knows kubectl's category, and what is shown in the shapes of Kubernetes; describe leaves that to get", async () => {
  const table = { columnDefinitions: [{ name: "Name" }], rows: [{ cells: ["one"] }] };
  const empty = { columnDefinitions: [], rows: [] };
  const show =
    (value: object) =>
    ({ response }: Asked) =>
      json(response, value);
  const kinds = ["providers", "plugins", "namespaces/default/schedules", "sources"].map((each) => `GET /apis/beige.dev/v1/${each}`);
  const made = await open({
    ...Object.fromEntries(kinds.map((path) => [path, show(empty)])),
    [`GET ${AGENTS}`]: show(table),
    "GET /api/v1/namespaces": show(table),
    "GET /api/v1/pods": show(table),
    "GET /api/v1/namespaces/team/events": show(table),
  });
  expect((await made.run(["get", "beige"])).out).toBe("NAME\nagent/one\n");
  for (const words of [["ns"], ["pods", "-A"], ["events", "-n", "team"]])
    expect([words, (await made.run(["get", ...words])).code]).toEqual([words, 0]);
  expect(await made.run(["describe", "pod/one"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("beige describe agent/one") as string,
  });
});

test("a watch goes on from the list's version, over a quiet end and over a lost history", async () => {
  const seen: string[] = [];
  const made = await open({
    [`GET ${AGENTS}`]: ({ response, url }) => {
      const version = url.searchParams.get("resourceVersion");
      if (url.searchParams.get("watch") !== "1")
        return json(response, { items: [], metadata: { resourceVersion: seen.length === 0 ? "5" : "9" } });
      seen.push(version ?? "");
      if (seen.length === 1)
        return ndjson(response, [
          { type: "ADDED", object: { ...agent("one"), metadata: { name: "one", namespace: "default", resourceVersion: "6" } } },
        ]);
      if (seen.length === 2) return ndjson(response, [{ type: "ERROR", object: { kind: "Status", code: 410 } }]);
      response
        .writeHead(200)
        .write(
          `${JSON.stringify({ type: "ADDED", object: { ...agent("two"), metadata: { name: "two", namespace: "default", resourceVersion: "10" } } })}\n`,
        );
    },
  });
  const child = made.start(["get", "agents", "-w", "-o", "name"]);
  let out = "";
  child.stdout?.on("data", (part: Buffer) => (out += part.toString()));
  await expect.poll(() => out, { timeout: 10_000 }).toBe("agent/one\nagent/two\n");
  child.kill("SIGINT");
  expect(await new Promise((ended) => child.on("exit", ended))).toBe(130);
  expect(seen).toEqual(["5", "6", "9"]);
});

test("a watch of a table prints the rows that are there, then what changes, in the same columns", async () => {
  const table = (rows: readonly string[]) => ({
    kind: "Table",
    metadata: { resourceVersion: "5" },
    columnDefinitions: [{ name: "Name" }, { name: "Ready" }],
    rows: rows.map((name) => ({ cells: [name, "yes"], object: { metadata: { name, namespace: "default" } } })),
  });
  const object = (name: string) => ({ ...agent(name), metadata: { name, namespace: "default", resourceVersion: "6" } });
  const made = await open({
    [`GET ${AGENTS}`]: ({ response, url }) => {
      if (url.searchParams.get("watch") !== "1") return json(response, table(["a-long-name"]));
      response.writeHead(200);
      for (const type of ["MODIFIED", "DELETED"]) response.write(`${JSON.stringify({ type, object: object("b") })}\n`);
    },
    [`GET ${AGENTS}/b`]: ({ response }) => json(response, table(["b"])),
  });
  const child = made.start(["get", "agents", "-w"]);
  let out = "";
  child.stdout?.on("data", (part: Buffer) => (out += part.toString()));
  await expect.poll(() => out, { timeout: 10_000 }).toBe("NAME          READY\na-long-name   yes\nb             yes\nagent/b deleted\n");
  child.kill("SIGINT");
  await new Promise((ended) => child.on("exit", ended));
});

test("colour is off in a pipe, on when forced, and NO_COLOR wins over FORCE_COLOR", async () => {
  const made = await open();
  const red = "\u001B[31m";
  expect((await made.run(["get", "agents"])).err).not.toContain(red);
  expect((await made.run(["get", "agents"], { env: { FORCE_COLOR: "1" } })).err).toContain(red);
  expect((await made.run(["get", "agents"], { env: { FORCE_COLOR: "1", NO_COLOR: "1" } })).err).not.toContain(red);
  expect((await made.run(["--color", "always", "get", "agents"], { env: { NO_COLOR: "1" } })).err).toContain(red);
});

test("validate needs no gateway, finds every problem, and speaks to GitHub", async () => {
  const made = await open();
  writeFileSync(
    join(made.home, "bad.yaml"),
    "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec: {api: echo, concurency: 2}\n---\nkind: Agnt\n",
  );
  const ran = await made.run(["validate", "-f", "bad.yaml"]);
  expect(ran.code).toBe(2);
  expect(ran.err).toContain('did you mean "concurrency"');
  const summary = join(made.home, "summary.md");
  const github = await made.run(["validate", "-f", "bad.yaml", "-o", "github"], { env: { GITHUB_STEP_SUMMARY: summary } });
  expect(github.code).toBe(2);
  expect(github.out.split("\n")[0]).toMatch(/^::error file=bad\.yaml,line=4,col=\d+,title=/);
  expect(readFileSync(summary, "utf8")).toContain("concurency");
  writeFileSync(join(made.home, "good.yaml"), "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec: {api: echo}\n");
  expect(await made.run(["validate", "-f", "good.yaml"])).toMatchObject({ code: 0, out: "1 object in 1 file: valid\n" });
});

test("diff --against compares manifests without a gateway", async () => {
  const made = await open();
  const provider = (concurrency: number) =>
    `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec: {api: echo, concurrency: ${concurrency}}\n`;
  mkdirSync(join(made.home, "old"));
  mkdirSync(join(made.home, "new"));
  writeFileSync(
    join(made.home, "old/a.yaml"),
    `${provider(2)}---\napiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: gone}\nspec: {api: echo}\n`,
  );
  writeFileSync(join(made.home, "new/a.yaml"), provider(3));
  const ran = await made.run(["diff", "-f", "new", "--against", "old"]);
  expect(ran.code).toBe(1);
  expect(ran.out).toContain("concurrency         2 → 3");
  expect(ran.out).toContain("Plan: 0 to create, 1 to update, 0 to replace, 1 to delete.");
  expect((await made.run(["diff", "-f", "new", "--against", "new"])).out).toBe("No changes: 1 object matches what is running.\n");
  expect(await made.run(["diff", "-f", "new", "--against", "old", "--fail-on", "permission,replace"])).toMatchObject({ code: 0 });
  expect(await made.run(["diff", "-f", "new", "--against", "old", "--fail-on", "delete"])).toMatchObject({ code: 1 });
});

test("version needs neither a gateway nor a home, and read verbs load nothing heavy", async () => {
  const made = await open();
  expect(await made.run(["version"])).toMatchObject({
    code: 0,
    out: `beige ${(JSON.parse(readFileSync("package.json", "utf8")) as { version: string }).version}\n`,
  });
  const { helpJson } = await import("./help.ts");
  const { verbs } = await import("./verbs.ts");
  const tree = JSON.parse(helpJson(verbs, "1")) as { verbs: { name: string }[] };
  expect(tree.verbs.length).toBeGreaterThan(25);
});
