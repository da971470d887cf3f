import { expect, test } from "vitest";
import { readManifests } from "./manifest.ts";
import { normalise, normaliseSpec, withDefaults } from "./normalise.ts";
import { SCHEMAS } from "./schema.ts";
import { validateDocument, validateHost, validateObject } from "./validate.ts";

/** Time of this process alone: the machine may be busy with others. */
const cpuMs = (): number => process.cpuUsage().user / 1000;

const object = (kind: string, spec: unknown, metadata: unknown = { name: "x" }): Record<string, unknown> => ({
  apiVersion: "beige.dev/v1",
  kind,
  metadata,
  spec,
});
const agent = (spec: object): Record<string, unknown> => object("Agent", { model: { provider: "p", id: "m" }, ...spec });
const told = (value: unknown): readonly string[] =>
  validateObject(value).map((p) => `${p.path} ${p.message}${p.hint === undefined ? "" : ` | ${p.hint}`}`);

test("valid objects have no problems and stay as they were", () => {
  const value = agent({ tools: ["a"], instructions: { file: "x.md" }, sandbox: { resources: { cpus: "500m", memory: "1Gi" } } });
  const before = JSON.stringify(value);
  expect(told(value)).toEqual([]);
  expect(JSON.stringify(value)).toBe(before);
});

test("every kind of mistake is told once, with what was expected and what was probably meant", () => {
  expect(told(agent({ modle: {} }))).toEqual(['/spec/modle unknown field "modle" in spec | did you mean "model"?']);
  expect(told(agent({ suspend: "yes" }))).toEqual([
    "/spec/suspend spec.suspend must be true or false, not string | write it without quotes; a variable is always text",
  ]);
  expect(told(agent({ instructions: 5 }))).toEqual([
    '/spec/instructions spec.instructions must be text or a mapping, not number | quote it: "5"',
  ]);
  expect(told(agent({ instructions: { flie: "x" } }))).toEqual([
    '/spec/instructions/flie unknown field "flie" in spec.instructions | did you mean "file"?',
  ]);
  expect(told(agent({ instructions: {} }))).toEqual(["/spec/instructions spec.instructions has no file | add file:"]);
  expect(told(agent({ sandbox: { resources: { memory: "lots" } } }))).toEqual([
    "/spec/sandbox/resources/memory spec.sandbox.resources.memory is not well formed | Memory, swap included (Kubernetes quantity).",
  ]);
  expect(told(agent({ sandbox: { resources: { memory: 1 } } }))).toEqual([
    "/spec/sandbox/resources/memory spec.sandbox.resources.memory must be at least 6291456",
  ]);
  expect(told(agent({ sandbox: { env: { "A B": "x", C: true } } }))).toEqual([
    '/spec/sandbox/env/A B "A B" is not allowed as a key of spec.sandbox.env | it must match ^[A-Za-z_][A-Za-z0-9_]*$',
    '/spec/sandbox/env/C spec.sandbox.env.C must be text, not boolean | quote it: "true"',
  ]);
  expect(told(agent({ tools: ["a", "a"] }))).toEqual(["/spec/tools spec.tools has the same entry twice (items 0 and 1, from 0)"]);
  expect(told(agent({ coreTools: ["exce"] }))).toEqual([
    '/spec/coreTools/0 spec.coreTools[0] has an unknown value | did you mean "exec"? one of: read, write, patch, exec',
  ]);
  expect(told(object("Provider", { api: "echo", concurrency: 0 }))).toEqual([
    "/spec/concurrency spec.concurrency must not have this value",
  ]);
  expect(told(object("Provider", { api: "echo", echo: { steps: [{ match: "(" }] } }))).toEqual([
    "/spec/echo/steps/0/match spec.echo.steps[0].match is no valid regex",
  ]);
  expect(told(object("Plugin", { source: {} }))).toEqual(["/spec/source spec.source must have one of its fields"]);
  expect(told(object("Plugin", { source: { builtin: "a", path: "b" } }))).toEqual([
    "/spec/source spec.source must have only 1 of its fields",
  ]);
  expect(told(object("Schedule", { agent: "a", cron: "* * * * *" }))).toEqual(["/spec spec has no input | add input: the prompt."]);
});

test("nothing is coerced, and null is refused", () => {
  expect(told(object("Provider", { api: "echo", concurrency: "5" }))).toHaveLength(1);
  expect(told(object("Provider", { api: "echo", concurrency: "" }))).toHaveLength(1);
  expect(told(object("Provider", { api: "echo", concurrency: true }))).toHaveLength(1);
  expect(told(object("Provider", { api: "echo" }, { name: null }))).toEqual([
    "/metadata/name metadata.name must be text, not nothing | give it a value, or remove the line",
  ]);
  expect(told(object("Provider", null))).toEqual(["/spec spec must be a mapping, not nothing | give it a value, or remove the line"]);
  expect(told(agent({ sandbox: null }))).toHaveLength(1);
  expect(told(object("Provider", { api: "echo", apiKey: null }))).toEqual([
    "/spec/apiKey spec.apiKey must be {secret: NAME} or {env: VARIABLE}, not nothing | give it a value, or remove the line",
  ]);
});

test("unknown kinds and versions list what there is", () => {
  const kinds = [...SCHEMAS.keys()].join(", ");
  expect(told(object("Agnet", {}))).toEqual([`/kind unknown kind "Agnet" | did you mean "Agent"? kinds: ${kinds}`]);
  expect(told(object("Deployment", {}))).toEqual([`/kind unknown kind "Deployment" | kinds of this version: ${kinds}`]);
  expect(told({})).toEqual([` kind is missing | kinds: ${kinds}`]);
  expect(told({ kind: 5 })[0]).toMatch(/kind must be text/);
  expect(told({ ...agent({}), apiVersion: "v1" })).toEqual(["/apiVersion apiVersion is not beige.dev/v1 | write apiVersion: beige.dev/v1"]);
  for (const no of [null, 5, "x", []]) expect(told(no)).toHaveLength(1);
});

test("names are labels, and kinds of the whole host have no namespace", () => {
  for (const name of ["../evil", "A", "a_b", "-a", "a-", "", "a".repeat(64), "a/b", "a\n"])
    expect([name, told(object("Plugin", { source: { builtin: "b" } }, { name })).length]).toEqual([name, 1]);
  expect(told(object("Plugin", { source: { builtin: "b" } }, { name: "x", namespace: "y" }))).toEqual([
    "/metadata/namespace a Plugin has no namespace | remove it",
  ]);
});

test("what is not in this version is refused by name", () => {
  expect(told(agent({ role: "worker" }))).toEqual(["/spec/role spec.role is not in this version | remove it"]);
  expect(told(agent({ sandbox: { scope: "session" } }))).toEqual([
    "/spec/sandbox/scope spec.sandbox.scope: session is not in this version | this version has: agent",
  ]);
});

test("a redaction mark, a NUL and half a character are no values", () => {
  expect(told(agent({ instructions: "[secret]" }))[0]).toMatch(/redaction mark/);
  expect(told(agent({ sandbox: { env: { A: "[secret]" } } }))).toHaveLength(1);
  expect(told(object("Plugin", { source: { builtin: "b" }, config: { deep: [{ token: "[secret]" }] } }))).toHaveLength(1);
  expect(told(agent({ instructions: "a\0b" }))[0]).toMatch(/NUL/);
  expect(told(agent({ instructions: "\ud800" }))[0]).toMatch(/Unicode/);
});

test("two mounts at one place are refused", () => {
  const mounts = [
    { source: "/a", target: "/d" },
    { source: "/b", target: "/d" },
  ];
  expect(told(agent({ sandbox: { mounts } }))).toEqual([
    "/spec/sandbox/mounts/1/target spec.sandbox.mounts has two entries with the same target | remove or change one",
  ]);
});

test("keys that reach for a prototype are refused wherever an object is free", () => {
  const config = JSON.parse('{"__proto__": {"x": 1}, "a": {"constructor": {}}}') as object;
  expect(told(object("Plugin", { source: { builtin: "b" }, config })).map((t) => t.split(" ")[0])).toEqual([
    "/spec/config/__proto__",
    "/spec/config/a/constructor",
  ]);
});

test("all problems of all documents are told, at the key for unknown fields and at the value otherwise", () => {
  const text =
    "apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  tool: [git]\n  model: {provider: p, id: 5}\n  instructions: ${X}\n---\nkind: Plugin\nmetadata: {name: b}\n";
  const { documents, problems } = readManifests([{ name: "s.yaml", text, vars: {}, files: {} }]);
  const all = [...problems, ...documents.flatMap((d) => validateDocument(d))];
  expect(all.map((p) => [`${String(p.at?.line)}:${String(p.at?.column)}`, p.object, p.message])).toEqual([
    ["7:17", "Agent/a", "${X} is not set"],
    ["5:3", "Agent/a", 'unknown field "tool" in spec'],
    ["6:28", "Agent/a", "spec.model.id must be text, not number"],
    ["9:1", "Plugin/b", "object has no apiVersion"],
    ["9:1", "Plugin/b", "object has no spec"],
  ]);
});

test("a thousand mistakes are told in time, the first hundred by name", () => {
  const started = cpuMs();
  const problems = validateObject(agent({ tools: Array.from({ length: 50_000 }, (_, i) => i) }));
  expect(problems).toHaveLength(101);
  expect(problems.at(-1)?.message).toMatch(/^and \d+ more problems/);
  expect(cpuMs() - started).toBeLessThan(2000);
});

test("a value of a variable is not repeated where it is wrong", () => {
  const text = "apiVersion: beige.dev/v1\nkind: ${K}\nmetadata: {name: a}\nspec: {api: '${K}'}\n";
  const read = readManifests([{ name: "s", text, vars: { K: "hunter2hunter2" }, files: {} }]);
  expect(JSON.stringify(read.documents.flatMap((d) => validateDocument(d)))).not.toContain("hunter2");
  const again = readManifests([
    { name: "s", text: text.replace("kind: ${K}", "kind: Provider"), vars: { K: "hunter2hunter2" }, files: {} },
  ]);
  const told = again.documents.flatMap((d) => validateDocument(d));
  expect([told.length, JSON.stringify(told).includes("hunter2")]).toEqual([1, false]);
});

test("host.yaml is read with its defaults, or told what is wrong with it", () => {
  expect(validateHost("")).toEqual({ policy: { secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } }, problems: [] });
  expect(validateHost("secrets: [{name: a, env: A}]\npaths: {mounts: [/srv]}").policy).toEqual({
    secrets: [{ name: "a", env: "A", hosts: [] }],
    paths: { mounts: ["/srv"], workspaces: [], plugins: [] },
  });
  expect(validateHost("secret: []", "/h/host.yaml").problems).toMatchObject([
    { message: 'unknown field "secret" in the object', hint: 'did you mean "secrets"?', at: { file: "/h/host.yaml", line: 1, column: 1 } },
  ]);
  expect(validateHost("secrets: [{name: a, value: hunter2}]").problems[0]).not.toHaveProperty("line");
  for (const bad of ["[", "a\n---\nb", "secrets: {}", "paths: {mounts: [relative]}", "- a", "x: *y"]) {
    const { policy, problems } = validateHost(bad);
    expect([bad, policy, problems.length > 0]).toEqual([bad, undefined, true]);
  }
});

test("normalising fills in every default, also in items, and does it once", () => {
  const value = { model: { provider: "p", id: "m" }, fallbacks: [], sandbox: { mounts: [{ source: "/a", target: "/b" }] } };
  const once = normaliseSpec("Agent", value) as { sandbox: { mounts: { readOnly: boolean }[]; resources: object } };
  expect(once.sandbox.mounts[0]?.readOnly).toBe(true);
  expect(once.sandbox.resources).toEqual({ memory: "3Gi", cpus: 2, pids: 512, tmp: "512Mi" });
  expect(normaliseSpec("Agent", once)).toEqual(once);
  expect(value).toEqual({ model: { provider: "p", id: "m" }, fallbacks: [], sandbox: { mounts: [{ source: "/a", target: "/b" }] } });
  expect(normalise("Agent", { ...agent({}), status: {}, metadata: { name: "x", uid: "u" } })).toMatchObject({ metadata: { name: "x" } });
  for (const [kind, schema] of SCHEMAS)
    for (const odd of [null, 5, "x", [], { spec: null }, { spec: [] }]) expect([kind, withDefaults(schema, odd)]).toEqual([kind, odd]);
});
