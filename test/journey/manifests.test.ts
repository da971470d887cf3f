// Manifests that hurt elsewhere, through the real command line and a real gateway: what is wrong is said, what is right is kept.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { makeGateway, until, type Ran } from "../gateway.ts";

vi.setConfig({ testTimeout: 60_000 });
const folder = mkdtempSync(join(tmpdir(), "beige-manifests-"));
// What only the daemon has: the command line runs without it.
const gateway = makeGateway();
beforeAll(() => gateway.start({ ONLY_THE_DAEMON_HAS: "hunter2hunter2" }), 40_000);
afterAll(async () => {
  await gateway.clean();
  rmSync(folder, { recursive: true, force: true });
});

let files = 0;
/** A manifest in a folder of its own. */
function manifest(text: string, name = "s.yaml"): string {
  const own = join(folder, String((files += 1)));
  mkdirSync(own);
  writeFileSync(join(own, name), text);
  return join(own, name);
}
const provider = (name: string, spec = "{api: echo}"): string =>
  `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const plugin = (name: string, spec: string): string => provider(name, spec).replace("Provider", "Plugin");
const agent = (name: string, spec: string): string =>
  provider(name, `{model: {provider: base, id: m}, ${spec}}`).replace("Provider", "Agent");
let sets = 0;
/** Each apply is a set of its own, so that nothing is said of others. */
const apply = (text: string, ...flags: string[]): Promise<Ran> =>
  gateway.beige("apply", "-f", manifest(text), "--set", `s${(sets += 1)}`, ...flags);
const everything = async (): Promise<string> => {
  const lists = await Promise.all(["providers", "plugins", "agents"].map((kind) => gateway.request("GET", `/apis/beige.dev/v1/${kind}`)));
  return JSON.stringify(
    lists.map((list) =>
      (list.body as { items: { metadata: object; spec: object }[] }).items.map(({ metadata, spec }) => ({ metadata, spec })),
    ),
  );
};
const specOf = async (name: string): Promise<Record<string, unknown>> =>
  (JSON.parse((await gateway.beige("get", "provider", name, "-o", "json")).out) as { spec: Record<string, unknown> }).spec;

/** Refused as a mistake in the manifest, and nothing is changed. */
async function refused(text: string, ...said: readonly (string | RegExp)[]): Promise<Ran> {
  const before = await everything();
  const ran = await apply(text);
  expect([ran.code, ran.out], ran.err).toEqual([2, ""]);
  for (const each of said) expect(ran.err).toMatch(typeof each === "string" ? new RegExp(RegExp.escape(each)) : each);
  expect(ran.err).toContain("Nothing was changed.");
  expect(await everything()).toBe(before);
  return ran;
}

test.each([
  ["an empty and a comment-only document", (a: string, b: string) => `${a}---\n---\n# only a comment\n---\n${b}`],
  ["end marks", (a: string, b: string) => `---\n${a}...\n---\n...\n---\n${b}...\n`],
  ["Windows line ends and a byte order mark", (a: string, b: string) => `\ufeff${a}---\n \n---\n${b}`.replaceAll("\n", "\r\n")],
  ["documents of white space and comments at both ends", (a: string, b: string) => `# c\n---\n${a}---\n   \n# d\n---\n${b}---\n# e\n---\n`],
])("all documents are applied in spite of %s (P01)", async (_what, stream) => {
  const [a, b] = [`first-${(files += 1)}`, `last-${files}`];
  const ran = await apply(stream(provider(a), provider(b)));
  expect(ran, ran.err).toMatchObject({ code: 0, err: "" });
  expect((await gateway.beige("get", "providers", "-o", "name")).out).toContain(`provider/${b}\n`);
});

test.each([
  ["in the third document", `${provider("a")}---\n---\n${provider("b", "{api: ecko}")}`, /s\.yaml:10:13 .*Provider\/b.*\(document 3\)/],
  ["with Windows line ends", `${provider("a")}---\r\n---\r\n${provider("b", "{api: ecko}").replaceAll("\n", "\r\n")}`, /s\.yaml:10:13 /],
  ["behind comments", `# c\n---\n${provider("a")}---\n# d\n${provider("b", "{api: ecko}")}`, /s\.yaml:12:13 .*\(document 2\)/],
  ["in broken YAML", `${provider("a")}---\n${provider("b")}x: [\n`, /s\.yaml:\d+:\d+ .*\(document 2\)/],
  ["of an object without a name", `${provider("a")}---\nkind: Provider\n`, /s\.yaml:6:1 .*\(document 2\)/],
])("a mistake %s is told with its place in the file (P03)", async (_where, text, place) => {
  await refused(text, place);
});

test.each([
  ["a source", plugin("x", "{source: {mcp: y}}"), ['unknown field "mcp"', "builtin, path"]],
  ["a source that is not in this version", plugin("x", "{source: {npm: y}}"), ["not in this version"]],
  ["an api", provider("x", "{api: ollama}"), ["unknown value", "openai-completions"]],
  ["a kind", provider("x").replace("Provider", "Toolset"), ['unknown kind "Toolset"', "Provider, Plugin, Agent, Schedule"]],
  ["a core tool", `${provider("base")}---\n${agent("x", "coreTools: [exec, shell]")}`, ["coreTools[1]", "read, write, patch, exec"]],
  [
    "a tool of a plugin that comes with it",
    `${provider("base")}---\n${plugin("memory", "{source: {builtin: memory}}")}---\n${agent("x", "tools: [memory, browser]")}`,
    ["tool 'browser' is in no plugin", "known tools: memory", /s\.yaml:14:\d+/],
  ],
])("%s that this version does not know is no warning (P05)", async (_what, text, said) => {
  await refused(text, ...said);
});

test.each([
  ["spec: {api: echo, concurency: 3}", 'unknown field "concurency" in spec', 'did you mean "concurrency"?', "4:19"],
  ["spec: {api: echo, models: [{id: a}, {id: b, maxTokns: 5}]}", "maxTokns", 'did you mean "maxTokens"?', "4:45"],
  ["specs: {api: echo}", 'unknown field "specs"', 'did you mean "spec"?', "4:1"],
  ["spec: {api: echo, echo: {step: []}}", "step", 'did you mean "steps"?', "4:26"],
  ["spec: {api: echo}\nlabels: {a: b}", 'unknown field "labels"', "known fields here", "5:1"],
])("%s: which field, where, and which was meant, without the rest of the manifest (P07, P17)", async (line, field, meant, place) => {
  const ran = await refused(
    provider("x").replace("spec: {api: echo}", line).replace("{name: x}", "{name: x, labels: {other: part}}"),
    field,
    meant,
    `:${place} `,
  );
  expect(ran.err).not.toContain("other");
});

test.each([
  ["spec:\n  api: echo\n  models: []\n  concurrency: 1\n  models: [{id: a}]", 'key "models" is here twice', "first on line 6"],
  ["spec: {api: echo, api: echo}", 'key "api" is here twice', "first on line 4"],
  ["spec: {api: echo}\nmetadata: {name: y}", 'key "metadata" is here twice', "first on line 3"],
  ['spec: {api: echo, "api": echo}', 'key "api" is here twice', "first on line 4"],
])("%j: neither of two equal keys wins (P09)", async (line, what, first) => {
  await refused(provider("x").replace("spec: {api: echo}", line), what, first);
});

test("mappings are merged, also twice and from a list, and no << reaches the object (P11)", async () => {
  const text = provider("merged").replace(
    "metadata: {name: merged}",
    'metadata: {name: merged, labels: &a {x: "1", y: "1"}, annotations: &b {y: "2", z: "2"}}',
  );
  const steps = "{api: echo, echo: {steps: [{match: a, <<: {text: t}, <<: {delayMs: 1, text: u}}, {<<: [{match: b}, {text: v}]}]}}";
  const labels = text.replace("annotations: &b {", "annotations: &b {<<: *a, ");
  expect((await apply(labels.replace("{api: echo}", steps))).code).toBe(0);
  const shown = JSON.parse((await gateway.beige("get", "provider", "merged", "-o", "json")).out) as { metadata: object; spec: object };
  expect(shown.metadata).toMatchObject({ labels: { x: "1", y: "1" }, annotations: { x: "1", y: "2", z: "2" } });
  expect(shown.spec).toMatchObject({
    echo: {
      steps: [
        { match: "a", text: "t", delayMs: 1 },
        { match: "b", text: "v" },
      ],
    },
  });
  expect(JSON.stringify(shown)).not.toContain("<<");
  await refused(provider("x", "{api: echo, <<: 5}"), "<< merges mappings only");
});

test.each([
  [
    "an alias bomb",
    `l0: &l0 [x,x]\n${Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(10).fill(`*l${i}`).join(",")}]`).join("\n")}\n`,
  ],
  ["20,000 brackets", "[".repeat(20_000)],
  ["a bomb in a label", provider("x").replace("{name: x}", `{name: x, labels: {a: ${"{a: ".repeat(5000)}`)],
  ["200,000 documents", "---\n".repeat(200_000)],
  ["an alias that contains itself", "a: &a [*a]\n"],
])("%s is an ordinary mistake, soon, and the gateway stays as it was (P15)", async (_what, text) => {
  const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid()}/status`, "utf8"))?.[1]) / 1024;
  const before = memory();
  const health = gateway.request("GET", "/api/health");
  const begun = performance.now();
  const ran = await apply(text);
  expect([ran.code, performance.now() - begun < 4000], ran.err.slice(0, 500)).toEqual([2, true]);
  expect(ran.err.length).toBeLessThan(20_000);
  expect((await health).status).toBe(200);
  expect(memory() - before).toBeLessThan(200);
});

test.each([
  ["metadata: {name: ~}\nspec: {api: echo}", "metadata.name must be text, not nothing"],
  ['spec: {api: echo, concurrency: ""}', "concurrency must be a whole number, not string"],
  ["spec: {api: echo, concurrency: true}", "concurrency must be a whole number, not boolean"],
  ['spec: {api: echo, timeoutSeconds: "5"}', "timeoutSeconds must be a whole number, not string"],
  ["spec: {api: echo, models: ~}", "models must be a list, not nothing"],
  ["spec: {api: echo, models: [{id: 5}]}", "models[0].id must be text, not number"],
])("%s is not bent into something else (P19)", async (line, what) => {
  const text = line.startsWith("metadata") ? provider("x").replace(/metadata[^]*/, line) : provider("x").replace("spec: {api: echo}", line);
  await refused(`${text}\n`, what);
});

test("every default is shown, and written out it is no change (P21, P39, P51)", async () => {
  const file = manifest(provider("plain", "{api: echo, models: [{id: a}]}"));
  expect((await gateway.beige("apply", "-f", file, "--set", "plain")).code).toBe(0);
  const shown = await specOf("plain");
  const model = { id: "a", contextWindow: 128000, maxTokens: 8192, input: ["text"], reasoning: false };
  expect(shown).toEqual({ api: "echo", concurrency: -1, timeoutSeconds: 300, models: [model] });
  const version = async (): Promise<string> =>
    (await gateway.beige("get", "provider", "plain", "-o", "jsonpath={.metadata.resourceVersion}")).out;
  const before = await version();
  for (const spec of [
    JSON.stringify(shown),
    "{api: echo, concurrency: -1, models: [{id: a}]}",
    "{models: [{reasoning: false, id: a}], api: echo}",
    '{api: "echo", timeoutSeconds: 3.0e2, models: [{id: a, input: [text]}]}',
  ]) {
    const same = manifest(provider("plain", spec));
    expect(await gateway.beige("diff", "-f", same, "--set", "plain"), spec).toMatchObject({
      code: 0,
      out: "No changes: 1 object matches what is running.\n",
    });
  }
  expect(await version()).toBe(before);
});

test.each([
  ["${env:KEY}", '"${env:KEY}" is no variable'],
  ["a ${MISSING_HERE} b", "${MISSING_HERE} is not set"],
  ["${OPEN", '"${OPEN" is no variable'],
  ["${ONLY_THE_DAEMON_HAS}", "${ONLY_THE_DAEMON_HAS} is not set"],
])("%s is an error in every text field, never sent as it stands (P27)", async (text, what) => {
  const fields = [
    provider("x", `{api: echo, echo: {steps: [{match: a, text: '${text}'}]}}`),
    provider("y", `{api: echo, models: [{id: '${text}'}]}`),
    provider("z", `{api: openai-completions, baseUrl: '${text}'}`),
    plugin("x", `{source: {builtin: memory}, config: {deep: [{headers: {auth: 'Bearer ${text}'}}]}}`),
    provider("w").replace("{name: w}", `{name: w, annotations: {a: '${text}'}}`),
  ];
  const ran = await refused(fields.join("---\n"), what);
  expect(ran.err.split(what)).toHaveLength(fields.length + 1);
});

test("what only the daemon can resolve stops no verb that reads (P29)", async () => {
  const file = manifest(provider("keyed", "{api: openai-completions, baseUrl: 'http://127.0.0.1:9/v1', apiKey: '${ONLY_THE_DAEMON_HAS}'}"));
  expect(await gateway.beige("apply", "-f", file, "--set", "keyed")).toMatchObject({ code: 0 });
  const verbs = [
    ["get", "providers"],
    ["get", "provider", "keyed", "-o", "yaml"],
    ["describe", "provider", "keyed"],
    ["diff", "-f", file, "--set", "keyed"],
    ["validate", "-f", file],
    ["doctor"],
    ["events"],
    ["gateway", "status"],
  ];
  for (const verb of verbs) {
    const ran = await gateway.beige(...verb);
    expect([verb.join(" "), ran.code], ran.err).toEqual([verb.join(" "), 0]);
    expect(ran.out + ran.err).not.toContain("hunter2");
  }
  const gone = manifest(provider("keyed", "{api: echo, echo: {steps: [{match: a, text: '${NEVER_SET_ANYWHERE}'}]}}"));
  expect((await gateway.beige("delete", "-f", gone, "--yes")).code).toBe(0);
});

test("a doubled dollar is one dollar and looks nothing up (P31), and what is printed can be applied again (P33)", async () => {
  const texts = [
    "$$HOME",
    "$${HOME}",
    "$$$${HOME}",
    "costs $5 and $$5",
    "a $ b",
    "$(id) `id`",
    "${HOME:-x}$$",
    "no",
    "12:30",
    "~",
    "line\n  \nend  \n",
    "=\ttab",
  ];
  const steps = texts.map((text, i) => ({ match: `^${i}$$`, text }));
  const text = provider("dollars", JSON.stringify({ api: "echo", echo: { steps } }));
  expect(await apply(text)).toMatchObject({ code: 0, err: "" });
  const { echo } = (await specOf("dollars")) as { echo: { steps: { text: string }[] } };
  // JSON output is a manifest too: dollars that could come to life are doubled.
  const plain = echo.steps.map((step) => step.text.replaceAll("$$", "$"));
  expect(plain.slice(0, 6)).toEqual(["$HOME", "${HOME}", "$${HOME}", "costs $5 and $5", "a $ b", "$(id) `id`"]);
  for (const format of ["yaml", "json"]) {
    const shown = (await gateway.beige("get", "provider", "dollars", "-o", format)).out;
    const again = manifest(shown, `again.${format}`);
    const set = `s${sets}`;
    expect(await gateway.beige("diff", "-f", again, "--set", set), shown).toMatchObject({ code: 0 });
    expect(await gateway.beige("apply", "-f", again, "--set", set)).toMatchObject({
      code: 0,
      out: expect.stringContaining("unchanged 1") as string,
    });
    const settled = (text: string): string => text.replace(/"resourceVersion": "\d+"/, "");
    expect(settled((await gateway.beige("get", "provider", "dollars", "-o", format)).out)).toBe(settled(shown));
  }
});

test("everything that get prints of a kind is a manifest of all of it (P33)", async () => {
  const shown = (await gateway.beige("get", "providers", "-o", "yaml")).out;
  expect(shown.split("\n---\n").length).toBeGreaterThan(5);
  expect(await gateway.beige("diff", "-f", manifest(shown))).toMatchObject({ code: 0, err: "" });
});

test.each([
  provider("x", "{api: echo, echo: {steps: [{match: a, text: '[secret]'}]}}"),
  provider("x", "{api: echo, models: [{id: '[secret]'}]}"),
  plugin("x", "{source: {builtin: memory}, config: {a: [{token: '[secret]'}]}}"),
  provider("x").replace("{name: x}", "{name: x, annotations: {a: '[secret]'}}"),
])("a redaction mark is not taken for a value: %j (P35)", async (text) => {
  await refused(text, "redaction mark");
});

test("the API refuses a redaction mark as well, in a whole object (P35)", async () => {
  const path = "/apis/beige.dev/v1/providers/plain";
  const { body } = await gateway.request("GET", path);
  body.spec.echo = { steps: [{ match: "a", text: "[secret]" }] };
  const put = await gateway.request("PUT", path, body);
  expect([put.status, JSON.stringify(put.body)]).toEqual([422, expect.stringContaining("redaction mark") as string]);
  expect((await specOf("plain"))["echo"]).toBeUndefined();
});

test("a plugin's secret under another key is one gone and one come, and it stays Ready (P25)", async () => {
  const secrets = (text: string): string => plugin("memory", `{source: {builtin: memory}, secrets: ${text}}`);
  const watch: unknown[] = [];
  const versions = [
    "{token: {env: ONLY_THE_DAEMON_HAS}}",
    "{pat: {env: ONLY_THE_DAEMON_HAS}}",
    "{pat: {env: ONLY_THE_DAEMON_HAS}, token: {env: ONLY_THE_DAEMON_HAS}}",
    "{}",
    "{key: '${ONLY_THE_DAEMON_HAS}'}",
  ];
  for (const version of versions) {
    const ran = await gateway.beige("apply", "-f", manifest(secrets(version)), "--set", "renamed");
    expect([version, ran.code], ran.err).toEqual([version, 0]);
    const { body } = await gateway.request("GET", "/apis/beige.dev/v1/plugins/memory");
    watch.push([Object.keys(body.spec.secrets), body.status.conditions.find((one: { type: string }) => one.type === "Ready").status]);
  }
  expect(watch).toEqual([
    [["token"], "True"],
    [["pat"], "True"],
    [["pat", "token"], "True"],
    [[], "True"],
    [["key"], "True"],
  ]);
});

test("what left the manifests is pruned, but the last of a set only by name (P45)", async () => {
  const names = ["p1", "p2", "p3", "p4"];
  const text = (...list: string[]): string => list.map((name) => provider(name)).join("---\n");
  const run = (list: string[], ...flags: string[]): Promise<Ran> =>
    gateway.beige("apply", "-f", manifest(list.length > 0 ? text(...list) : "# nothing\n"), "--set", "pruned", ...flags);
  const there = async (): Promise<readonly string[]> => {
    const all = (await gateway.beige("get", "providers", "-o", "name")).out.split("\n");
    return names.filter((name) => all.includes(`provider/${name}`));
  };
  expect((await run(names)).code).toBe(0);
  expect((await run(["p1", "p2", "p3"])).err).toContain("provider/p4");
  expect(await there()).toEqual(names);
  expect((await run(["p1", "p2", "p3"], "--prune", "--yes")).code).toBe(0);
  expect(await there()).toEqual(["p1", "p2", "p3"]);
  const empty = await run([], "--prune", "--yes");
  expect([empty.code, empty.err], empty.err).toEqual([3, expect.stringContaining("beige delete") as string]);
  expect(await there()).toEqual(["p1", "p2", "p3"]);
  expect((await run([])).code).toBe(2);
});

test("more than a pipe holds arrives whole, also beside a failure (P125)", async () => {
  const many = Array.from({ length: 120 }, (_, i) =>
    provider(`many-${i}`).replace("{name:", `{annotations: {a: "${"x".repeat(2000)}"}, name:`),
  ).join("---\n");
  expect((await apply(many)).code).toBe(0);
  const list = await gateway.beige("get", "providers", "-o", "json");
  expect(list.out.length).toBeGreaterThan(200_000);
  expect((JSON.parse(list.out) as { items: unknown[] }).items.length).toBeGreaterThan(120);
  const differs = await gateway.beige("diff", "-f", manifest(many.replaceAll("xxxx", "yyyy")), "--set", `s${sets}`, "-o", "json");
  expect(differs.code).toBe(1);
  expect(differs.out.length).toBeGreaterThan(200_000);
  expect((JSON.parse(differs.out) as { objects: unknown[] }).objects).toHaveLength(120);
});

test("what the gateway keeps is its owner's alone (P113)", async () => {
  const open = (path: string): readonly string[] =>
    readdirSync(path, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile() || entry.isSocket())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((file) => (statSync(file).mode & 0o077) !== 0 && !file.endsWith("daemon.err"));
  await until(() => statSync(join(gateway.home, "logs/control.jsonl")).size > 0, 5000, "the chain has rows");
  expect(open(gateway.home)).toEqual([]);
  for (const file of ["logs/gateway.log", "logs/control.jsonl", "state.db"])
    expect(readFileSync(join(gateway.home, file), "latin1")).not.toContain("hunter2");
});
