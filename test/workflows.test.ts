// The workflows under docs/ci as their services would take them: known keys, sound shell, and a whole run on a repository with a change.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { type Kept, load, service, type Service, texts } from "./comments.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
type Keys = Readonly<Record<string, unknown>>;
const keys = (value: unknown): Keys => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Keys) : {});
const items = (value: unknown): readonly Keys[] => (Array.isArray(value) ? value.map(keys) : []);

const folders: string[] = [];
const services: Service[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  for (const each of services.splice(0)) each.close();
});

async function serving(comments: Kept[]): Promise<string> {
  const made = await service(comments);
  services.push(made);
  return made.url;
}

interface Step {
  readonly run: string;
  readonly env: Readonly<Record<string, string>>;
}

const github = keys(load("github.yml"));
const job = keys(keys(github["jobs"])["plan"]);
const steps = items(job["steps"]);
const gitlab = keys(keys(load("gitlab.yml"))["beige"]);
const lines = (gitlab["script"] ?? []) as readonly string[];

function only(value: unknown, known: string): void {
  expect(Object.keys(keys(value)).filter((key) => !known.split(" ").includes(key))).toEqual([]);
}

test("GitHub's keys are those that it knows, and no step says less or more than one thing to do", () => {
  only(github, "name run-name on permissions env defaults concurrency jobs");
  only(github["on"], "pull_request");
  only(keys(github["on"])["pull_request"], "types branches branches-ignore paths paths-ignore");
  for (const [scope, level] of Object.entries(keys(github["permissions"])))
    expect(["contents pull-requests".split(" ").includes(scope), ["read", "write", "none"].includes(String(level))]).toEqual([true, true]);
  only(github["concurrency"], "group cancel-in-progress");
  only(
    job,
    "name needs permissions runs-on environment concurrency outputs env defaults if steps timeout-minutes strategy container services",
  );
  expect(job["runs-on"]).toMatch(/^ubuntu-/);
  for (const step of steps) {
    only(step, "id if name uses run shell with env working-directory continue-on-error timeout-minutes");
    expect([step["uses"], step["run"]].filter((each) => typeof each === "string")).toHaveLength(1);
    if (typeof step["uses"] === "string") expect(step["uses"]).toMatch(/^[\w-]+\/[\w-]+@(v\d+|[0-9a-f]{40})$/);
    for (const value of Object.values({ ...keys(step["with"]), ...keys(step["env"]) }))
      expect(["string", "number", "boolean"]).toContain(typeof value);
  }
});

test("GitHub's expressions name contexts that exist, and none of them is pasted into a script", () => {
  for (const text of texts(github))
    for (const [, inner = ""] of text.matchAll(/\$\{\{(.*?)\}\}/g)) expect(inner.trim()).toMatch(/^(github|env|steps|runner)(\.\w+)+$/);
  // A branch may be called $(anything).
  for (const step of steps) if (typeof step["run"] === "string") expect(step["run"]).not.toContain("${{");
});

test("GitLab's keys are those that it knows", () => {
  only(load("gitlab.yml"), "beige");
  only(
    gitlab,
    "image rules variables script before_script after_script stage needs artifacts cache tags timeout interruptible allow_failure",
  );
  for (const rule of items(gitlab["rules"])) only(rule, "if changes exists when allow_failure variables needs");
  for (const value of Object.values(keys(gitlab["variables"]))) expect(typeof value).toBe("string");
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) expect(typeof line).toBe("string");
});

const scripts = [...steps.map((step) => step["run"]).filter((run) => typeof run === "string"), ...lines];
test.each(["bash", "sh"])("every script is one that %s reads", (shell) => {
  expect(scripts.length).toBeGreaterThan(5);
  for (const script of scripts)
    expect(spawnSync(shell, ["-n"], { input: script, encoding: "utf8" })).toMatchObject({ status: 0, stderr: "" });
});

const provider = (concurrency: number): string =>
  `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec: {api: echo, concurrency: ${concurrency}}\n`;

/** A repository whose branch changes a manifest, and an `npx` that runs this tree's program. Answers the base commit. */
function repository(text: string): { readonly folder: string; readonly base: string } {
  const folder = mkdtempSync(join(tmpdir(), "beige-workflow-"));
  folders.push(folder);
  const git = (...args: string[]): string =>
    spawnSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: folder, encoding: "utf8" }).stdout.trim();
  mkdirSync(join(folder, "stacks"));
  mkdirSync(join(folder, ".bin"));
  const npx = `#!/bin/sh\n[ "$1 $2" = "--yes beige" ] || exit 99\nshift 2\nexec "${process.execPath}" "${join(root, "bin/beige.cjs")}" "$@"\n`;
  writeFileSync(join(folder, ".bin/npx"), npx, { mode: 0o755 });
  git("init", "-q");
  writeFileSync(join(folder, "stacks/p.yaml"), provider(2));
  git("add", "stacks");
  git("commit", "-qm", "base");
  const base = git("rev-parse", "HEAD");
  writeFileSync(join(folder, "stacks/p.yaml"), text);
  git("commit", "-qam", "change");
  return { folder, base };
}

function shell(args: readonly string[], script: string, how: { readonly cwd: string; readonly env: Readonly<Record<string, string>> }) {
  return new Promise<{ readonly code: number | null; readonly said: string }>((done) => {
    const child = spawn("bash", [...args, "-c", script], how);
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (part: Buffer) => (said += String(part)));
    child.on("close", (code) => done({ code, said }));
  });
}

interface Run {
  readonly text: string;
  readonly comments: Kept[];
}

async function onGitHub({
  text,
  comments,
}: Run): Promise<{ readonly code: number | null; readonly said: string; readonly summary: string }> {
  const { folder, base } = repository(text);
  const given = { "github.token": "t", "github.event.pull_request.base.sha": base, "github.event.pull_request.number": "7" };
  const fill = (value: unknown): string =>
    String(value).replaceAll(/\$\{\{ (.*?) \}\}/g, (_, name: string) => given[name as keyof typeof given]);
  const env = {
    PATH: `${folder}/.bin:${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
    HOME: folder,
    GITHUB_API_URL: await serving(comments),
    GITHUB_REPOSITORY: "a/b",
    GITHUB_STEP_SUMMARY: join(folder, "summary.md"),
  };
  writeFileSync(env.GITHUB_STEP_SUMMARY, "");
  let said = "";
  for (const step of steps.flatMap((each): readonly Step[] => (typeof each["run"] === "string" ? [each as unknown as Step] : []))) {
    const own = Object.fromEntries(Object.entries({ ...keys(job["env"]), ...keys(step.env) }).map(([name, value]) => [name, fill(value)]));
    const ran = await shell(["-e"], step.run, { cwd: folder, env: { ...env, ...own } });
    said += ran.said;
    if (ran.code !== 0) return { code: ran.code, said, summary: readFileSync(env.GITHUB_STEP_SUMMARY, "utf8") };
  }
  return { code: 0, said, summary: readFileSync(env.GITHUB_STEP_SUMMARY, "utf8") };
}

async function onGitLab({ text, comments }: Run): Promise<{ readonly code: number | null; readonly said: string }> {
  const { folder, base } = repository(text);
  const env = {
    PATH: `${folder}/.bin:${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
    HOME: folder,
    CI_API_V4_URL: await serving(comments),
    CI_PROJECT_ID: "3",
    CI_MERGE_REQUEST_IID: "7",
    CI_MERGE_REQUEST_DIFF_BASE_SHA: base,
    BEIGE_CI_TOKEN: "t",
    ...(keys(gitlab["variables"]) as Record<string, string>),
  };
  return shell(["-eo", "pipefail"], lines.join("\n"), { cwd: folder, env });
}

test.each([
  ["github.yml", onGitHub],
  ["gitlab.yml", onGitLab],
] as const)(
  "%s run whole on a change: one comment with the plan, nothing for no change, and a failed job for a mistake",
  async (_, run) => {
    const comments: Kept[] = [];
    expect(await run({ text: provider(5), comments })).toMatchObject({ code: 0 });
    expect(services[0]?.writes).toEqual(["POST new"]);
    expect(comments[0]?.body).toMatch(/^<!-- beige-diff[^]*\*\*beige\*\*: 1 updated[^]*concurrency/);
    const quiet: Kept[] = [];
    expect(await run({ text: `${provider(2)}# the same\n`, comments: quiet })).toMatchObject({ code: 0 });
    expect(quiet).toEqual([]);
    const wrong = await run({ text: provider(5).replace("concurrency", "concurency"), comments: quiet });
    expect([wrong.code, quiet]).toEqual([2, []]);
    expect(wrong.said).toContain('did you mean "concurrency"');
    if ("summary" in wrong) expect(wrong.said).toMatch(/^::error file=stacks\/p\.yaml,line=4/m);
  },
  60_000,
);
