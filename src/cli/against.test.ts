import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { StackPlan } from "../core/control.ts";
import { applyJsonPatch } from "../core/diff.ts";
import { type Asked, json, stand, type Stand } from "./harness.ts";

const stands: Stand[] = [];
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});

const provider = "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: echo}\nspec: {api: echo}\n";
const agent = (name: string, spec: string): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: ${name}}\nspec:\n  model: {provider: echo, id: m}\n${spec}`;

interface Repo {
  readonly made: Stand;
  readonly root: string;
  git(...args: readonly string[]): string;
  write(files: Readonly<Record<string, string | null>>): void;
  diff(...args: readonly string[]): ReturnType<Stand["run"]>;
}

async function repo(files: Readonly<Record<string, string>>): Promise<Repo> {
  const made = await stand();
  stands.push(made);
  const root = join(made.home, "clone");
  mkdirSync(root);
  const git = (...args: readonly string[]): string =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main", ...args], {
      cwd: root,
      encoding: "utf8",
      env: { PATH: process.env["PATH"], HOME: made.home },
    });
  const write: Repo["write"] = (contents) => {
    for (const [name, text] of Object.entries(contents)) {
      const path = join(root, name);
      if (text === null) rmSync(path);
      else {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
      }
    }
  };
  git("init", "-q");
  write(files);
  git("add", "-A");
  git("commit", "-qm", "one");
  return { made, root, git, write, diff: (...args) => made.run(["diff", ...args], { cwd: root }) };
}

const BASE = {
  "stacks/provider.yaml": provider,
  "stacks/travel.yaml": agent("travel", "  instructions: {file: ./travel.md}\n"),
  "stacks/travel.md": "Be short.\n",
  "stacks/old.yaml": agent("old", ""),
  "stacks/deep/more.yaml": agent("deep", ""),
  "README.md": "hello",
};

test("a change is compared with a commit, without a gateway: text files come from that commit too", async () => {
  const there = await repo(BASE);
  expect(await there.diff("-f", "stacks", "--against", "main")).toMatchObject({ code: 0, err: "" });
  there.write({ "stacks/travel.md": "Be long.\n", "stacks/old.yaml": null, "stacks/new.yaml": agent("new", "  tools: [git]\n") });
  const ran = await there.diff("-f", "stacks", "--against", "main", "-o", "json");
  const plan = JSON.parse(ran.out) as StackPlan;
  expect([ran.code, ran.err]).toEqual([1, ""]);
  expect(plan.objects.map((each) => [each.ref.name, each.verb])).toEqual([
    ["echo", "unchanged"],
    ["new", "create"],
    ["travel", "update"],
    ["old", "delete"],
  ]);
  expect(plan.objects[2]?.fields).toEqual([{ path: "instructions", before: "Be short.\n", after: "Be long.\n", impact: "live" }]);
  expect(plan.objects[2]?.patch).toEqual([{ op: "replace", path: "/spec/instructions", value: "Be long.\n" }]);
  expect(applyJsonPatch({}, plan.objects[1]?.patch)).toMatchObject({ spec: { tools: ["git"] } });
  expect((JSON.parse((await there.diff("-f", "stacks", "-R", "--against", "HEAD", "-o", "json")).out) as StackPlan).summary).toMatchObject({
    create: 1,
    unchanged: 2,
    delete: 1,
  });
});

test.each([
  ["a folder", ["-f", "stacks"]],
  ["a file", ["-f", "stacks/travel.yaml"]],
  ["a glob", ["-f", "stacks/t*.yaml"]],
  ["an absolute path", ["-f", "ROOT/stacks/travel.yaml"]],
])("%s names the same manifests in the commit", async (_name, args) => {
  const there = await repo(BASE);
  const words = args.map((word) => word.replace("ROOT", there.root));
  expect(await there.diff(...words, "--against", "HEAD")).toMatchObject({ code: 0, out: expect.stringMatching(/^No changes/) });
  there.write({ "stacks/travel.md": "Other.\n" });
  expect((await there.diff(...words, "--against", "HEAD")).code).toBe(1);
});

test("the paths are those of the folder that the caller stands in", async () => {
  const there = await repo(BASE);
  expect((await there.made.run(["diff", "-f", ".", "--against", "HEAD"], { cwd: join(there.root, "stacks") })).out).toMatch(
    /^No changes: 3/,
  );
});

test("--detailed-exitcode is 0 without, 2 with differences and 1 for any error", async () => {
  const there = await repo(BASE);
  const code = async (...args: string[]) => (await there.diff("-f", "stacks", "--detailed-exitcode", ...args)).code;
  expect(await code("--against", "main")).toBe(0);
  expect(await code("--against", "nowhere")).toBe(1);
  expect(await code()).toBe(1);
  there.write({ "stacks/old.yaml": null });
  expect(await code("--against", "main")).toBe(2);
  expect(await code("--against", "main", "--fail-on", "replace")).toBe(0);
  there.write({ "stacks/bad.yaml": "kind: Agent\n" });
  expect(await code("--against", "main")).toBe(1);
});

test("a broken commit does not stop the change that mends it", async () => {
  const there = await repo({ ...BASE, "stacks/old.yaml": agent("old", "  tols: [git]\n") });
  there.write({ "stacks/old.yaml": agent("old", "  tools: [git]\n") });
  const ran = await there.diff("-f", "stacks", "--against", "main");
  expect(ran).toMatchObject({ code: 1, err: "main itself has 1 problem: what is wrong there counts as absent\n" });
  expect(ran.out).toContain("Plan: 1 to create, 0 to update");
});

test.each([
  ["no such commit", ["--against", "nowhere"], /no commit of that name/],
  ["an option in disguise", ["--against=--upload-pack=x"], /no commit of that name/],
  ["files outside the repository", ["--against", "main", "-f", "../out.yaml"], /outside the repository/],
])("%s is refused, exit 2", async (_name, args, why) => {
  const there = await repo(BASE);
  writeFileSync(join(there.made.home, "out.yaml"), provider);
  const ran = await there.diff("-f", "stacks", ...args);
  expect(ran.code).toBe(2);
  expect(ran.err).toMatch(why);
});

test("outside a repository the message says what else can be compared with", async () => {
  const made = await stand();
  stands.push(made);
  writeFileSync(join(made.home, "a.yaml"), provider);
  expect(await made.run(["diff", "-f", "a.yaml", "--against", "main"], { env: { GIT_CEILING_DIRECTORIES: "/" } })).toMatchObject({
    code: 2,
    err: expect.stringContaining("here is no git repository"),
  });
});

test("nothing that the repository's configuration names is run, and links in a commit are not followed", async () => {
  const there = await repo(BASE);
  const ran = join(there.made.home, "ran");
  const trap = join(there.made.home, "trap");
  writeFileSync(trap, `#!/bin/sh\ntouch ${ran}\n`);
  chmodSync(trap, 0o755);
  const config: readonly (readonly [string, string])[] = [
    ["core.fsmonitor", trap],
    ["core.hooksPath", there.made.home],
    ["core.pager", trap],
    ["diff.external", trap],
    ["core.sshCommand", trap],
    ["core.editor", trap],
    ["filter.x.smudge", trap],
    ["alias.ls-tree", `!${trap}`],
  ];
  for (const [key, value] of config) there.git("config", key, value);
  writeFileSync(join(there.made.home, "secret.md"), "planted");
  rmSync(join(there.root, "stacks/travel.md"));
  symlinkSync(join(there.made.home, "secret.md"), join(there.root, "stacks/travel.md"));
  execFileSync("git", ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "add", "-A"], { cwd: there.root });
  execFileSync(
    "git",
    ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "two"],
    { cwd: there.root },
  );
  rmSync(ran, { force: true });
  there.write({ "stacks/travel.yaml": agent("travel", "  instructions: Hello.\n") });
  const diff = await there.diff("-f", "stacks", "--against", "main");
  expect([existsSync(ran), diff.out.includes("planted")]).toEqual([false, false]);
  expect(diff.err).toContain("main itself has 1 problem");
});

const stored = (kind: string, name: string, spec: object, metadata: object = {}) => ({
  apiVersion: "beige.dev/v1",
  kind,
  metadata: {
    name,
    ...(kind === "Agent" && { namespace: "default" }),
    uid: "u",
    resourceVersion: "5",
    generation: 2,
    managedFields: [{}],
    creationTimestamp: "x",
    ...metadata,
  },
  spec,
  status: { conditions: [] },
});

async function exporting(objects: Readonly<Record<string, readonly object[]>>): Promise<Stand> {
  const route =
    (plural: string) =>
    (asked: Asked): void =>
      json(asked.response, { items: objects[plural] ?? [] });
  const base = "/apis/beige.dev/v1";
  const made = await stand({
    ...Object.fromEntries(
      ["providers", "plugins", "sources", "agents", "schedules"].map((plural) => [`GET ${base}/${plural}`, route(plural)]),
    ),
    ...Object.fromEntries(["agents", "schedules"].map((plural) => [`GET ${base}/namespaces/default/${plural}`, route(plural)])),
  });
  stands.push(made);
  return made;
}

const SECRET = ["sk", "planted0123456789"].join("-");
const OBJECTS = {
  providers: [
    stored("Provider", "echo", { api: "echo" }),
    stored("Provider", "big", { api: "openai-completions", apiKey: { secret: "openai" } }),
  ],
  plugins: [
    stored("Plugin", "git", {
      source: { builtin: "git" },
      config: { token: "planted-token", branch: "main", url: "https://u:planted-pass@example.com" },
    }),
  ],
  agents: [
    stored(
      "Agent",
      "travel",
      { model: { provider: "echo", id: "m" }, instructions: `cost \${X} $$5\nkey ${SECRET}\n`, sandbox: { env: { MODE: "planted-env" } } },
      { labels: { team: "ops" } },
    ),
    stored("Agent", "gone", { model: { provider: "echo", id: "m" } }, { deletionTimestamp: "now" }),
  ],
};

test("an export can be applied again: the same objects, in order, without what the gateway wrote", async () => {
  const made = await exporting(OBJECTS);
  const ran = await made.run(["export", "-A"]);
  expect(ran.out.match(/name: \w+/g)).toEqual(["name: big", "name: echo", "name: git", "name: travel"]);
  expect(ran.out).not.toMatch(/managedFields|status|resourceVersion/);
  writeFileSync(join(made.home, "all.yaml"), ran.out);
  writeFileSync(join(made.home, "snapshot.json"), (await made.run(["export", "-o", "json"])).out);
  expect(await made.run(["validate", "-f", "all.yaml"])).toMatchObject({ code: 0 });
  expect(await made.run(["diff", "-f", "all.yaml", "--against", "snapshot.json"])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^No changes: 4/),
  });
});

test("a redacted export holds no value that may be secret, is never applied, and is compared without what it hides", async () => {
  const made = await exporting(OBJECTS);
  const [yaml, snapshot, open] = [
    await made.run(["export", "--redact"]),
    await made.run(["export", "--redact", "-o", "json"]),
    await made.run(["export"]),
  ];
  for (const each of [yaml, snapshot]) {
    expect(each.out).not.toContain("planted");
    expect(each.out).toContain("openai");
  }
  writeFileSync(join(made.home, "redacted.yaml"), yaml.out);
  expect(await made.run(["validate", "-f", "redacted.yaml"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("is a redaction mark"),
  });
  writeFileSync(join(made.home, "all.yaml"), open.out);
  writeFileSync(join(made.home, "snapshot.json"), snapshot.out);
  expect((await made.run(["diff", "-f", "all.yaml", "--against", "snapshot.json"])).out).toMatch(/^No changes: 4/);
  writeFileSync(join(made.home, "all.yaml"), open.out.replace("team: ops", "team: dev"));
  const changed = await made.run(["diff", "-f", "all.yaml", "--against", "snapshot.json", "-o", "json"]);
  const plan = JSON.parse(changed.out) as StackPlan;
  expect(plan.objects.flatMap((each) => each.fields)).toEqual([
    { path: "metadata.labels.team", before: "ops", after: "dev", impact: "live" },
  ]);
});

test.each([
  '{"kind":"Snapshot"}',
  '{"kind":"Snapshot","items":[{"kind":"Agent"}]}',
  '{"kind":"Snapshot","items":[{"kind":1,"metadata":{"name":"a"},"spec":{}}]}',
])("a snapshot that is not whole is refused: %s", async (text) => {
  const made = await exporting({});
  writeFileSync(join(made.home, "a.yaml"), provider);
  writeFileSync(join(made.home, "snapshot.json"), text);
  expect(await made.run(["diff", "-f", "a.yaml", "--against", "snapshot.json"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("is no whole snapshot"),
  });
});

test("a snapshot may hold anything: kinds of another version are deleted ones, and no name reaches a prototype", async () => {
  const made = await exporting({});
  writeFileSync(join(made.home, "a.yaml"), provider);
  const odd =
    '{"kind":"Snapshot","items":[{"kind":"Robot","metadata":{"name":"r"},"spec":{"a":1}},{"kind":"__proto__","metadata":{"name":"constructor"},"spec":{"__proto__":{"x":1}}}]}';
  writeFileSync(join(made.home, "snapshot.json"), odd);
  const ran = await made.run(["diff", "-f", "a.yaml", "--against", "snapshot.json"]);
  expect(ran).toMatchObject({ code: 1, out: expect.stringContaining("Plan: 1 to create, 0 to update, 0 to replace, 2 to delete.") });
});

test("the comment on a pull request: dangers and permissions first, the same bytes each time", async () => {
  const there = await repo({
    ...BASE,
    "stacks/travel.yaml": agent("travel", "  tools: [notes]\n  sandbox: {image: 'beige-base:1', network: {mode: none}}\n"),
    "stacks/quiet.yaml": agent("quiet", "  instructions: A.\n"),
  });
  there.write({
    "stacks/old.yaml": null,
    "stacks/travel.yaml": agent(
      "travel",
      "  tools: [notes, git]\n  sandbox: {image: 'beige-base:2', network: {mode: open}, mounts: [{source: /srv, target: /data, readOnly: false}]}\n",
    ),
    "stacks/quiet.yaml": agent("quiet", "  instructions: |\n    A.\n    <!-- `x` @all </details>\n"),
    "stacks/new.yaml": agent("new", "  tools: [git]\n  sandbox: {network: {mode: open}}\n"),
  });
  const args = ["-f", "stacks", "--against", "main", "-o", "markdown"];
  const ran = await there.diff(...args);
  await expect(ran.out).toMatchFileSnapshot("../../test/golden/plan/pull-request.md");
  expect((await there.diff(...args)).out).toBe(ran.out);
});

test("a replacement that a person must ask for is counted as one, and said to wait", async () => {
  const manual = (image: string): string => agent("travel", `  sandbox: {image: '${image}'}\n  update: {strategy: manual}\n`);
  const there = await repo({ "a.yaml": provider, "b.yaml": manual("beige-base:1") });
  there.write({ "b.yaml": manual("beige-base:2") });
  const shown = await there.diff("-f", ".", "--against", "main", "--fail-on", "replace");
  expect(shown).toMatchObject({ code: 1, out: expect.stringContaining("forces replacement, held back") });
  expect(shown.out).toContain("(+/-) replace, later");
  expect(shown.out).toContain("held back: beige rollout restart agent/travel");
  expect(shown.out).toContain("Plan: 0 to create, 0 to update, 1 to replace, 0 to delete. 1 of those to replace is held back.");
  const comment = (await there.diff("-f", ".", "--against", "main", "-o", "markdown")).out;
  expect(comment).toContain("**beige**: 1 replaced later, 1 unchanged");
  expect(comment).toContain("**agent/travel is replaced later** (sandbox.image; held back: beige rollout restart agent/travel)");
  const plan = JSON.parse((await there.diff("-f", ".", "--against", "main", "-o", "json")).out) as StackPlan;
  expect([plan.summary.replace, plan.objects[1]?.verb, plan.objects[1]?.fields[0]?.impact]).toEqual([1, "replace-later", "replace"]);
});

test("each changed field says what it does to what runs", async () => {
  const of = (id: string, memory: string): string =>
    agent("travel", `  sandbox: {resources: {memory: ${memory}}}\n`).replace("id: m", `id: ${id}`);
  const there = await repo({ "a.yaml": provider, "b.yaml": of("m", "1Gi") });
  there.write({ "b.yaml": of("n", "2Gi") });
  const { out } = await there.diff("-f", ".", "--against", "main");
  expect(out).toMatch(/~ model\.id +m → n {3}live\n/);
  expect(out).toMatch(/~ sandbox\.resources\.memory +1Gi → 2Gi {3}in place\n/);
  const comment = (await there.diff("-f", ".", "--against", "main", "-o", "markdown")).out;
  expect(comment).toContain("  model.id   (live)\n");
  expect(comment).toContain("  sandbox.resources.memory   (in place)\n");
});

test("without -f the manifests of this folder are compared with a commit or a folder; what is not of beige is passed over", async () => {
  const there = await repo({ ...BASE, "a.yaml": provider, "compose.yml": "services: {}\n", "package.json": "{}\n" });
  const same = await there.diff("--against", "main", "-o", "markdown");
  expect(same).toMatchObject({ code: 0, out: expect.stringContaining("no changes, 1 unchanged"), err: "no -f given: taking -f .\n" });
  there.write({ "b.yaml": agent("new", "") });
  const ran = await there.diff("--against", "main", "-o", "markdown");
  expect(ran).toMatchObject({ code: 1, out: expect.stringContaining("Next: `beige apply -f .`") });
  expect((await there.diff("--against", "stacks")).code).toBe(1);
  there.write({ "a.yaml": null, "b.yaml": null });
  expect((await there.diff("--against", "main")).out).toContain("1 to delete");
  expect(await there.diff()).toMatchObject({ code: 2, err: expect.stringContaining("no manifest given") });
  there.git("rm", "-q", "--cached", "a.yaml");
  there.git("commit", "-qm", "two");
  expect(await there.diff("--against", "main")).toMatchObject({ code: 2, err: expect.stringContaining("holds no manifests") });
});

test("outside of a work tree -f must be said", async () => {
  const made = await stand();
  stands.push(made);
  mkdirSync(join(made.home, "old"));
  writeFileSync(join(made.home, "a.yaml"), provider);
  expect(await made.run(["diff", "--against", "old"])).toMatchObject({ code: 2, err: expect.stringContaining("no manifest given") });
});
