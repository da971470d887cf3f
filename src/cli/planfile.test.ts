import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import type { ApplyRequest, ObjectPlan, StackPlan } from "../core/control.ts";
import { type Asked, json, ndjson, stand, type Stand } from "./harness.ts";

const stands: Stand[] = [];
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});
const main = join(dirname(fileURLToPath(import.meta.url)), "main.ts");

const one = (verb: ObjectPlan["verb"], name: string): ObjectPlan => ({
  ref: { kind: "Agent", namespace: "default", name },
  verb,
  why: ["spec"],
  fields: [],
  drift: [],
  actions: [],
});
const BASIS = { store: "s", resourceVersion: "7", objects: [] };
const planOf = (objects: readonly ObjectPlan[]): StackPlan => {
  const count = (verb: string): number => objects.filter((each) => each.verb === verb).length;
  const summary = { create: count("create"), update: count("update"), replace: count("replace"), delete: count("delete"), unchanged: 0 };
  return { objects, summary, left: [] };
};

interface Gateway {
  readonly made: Stand;
  readonly requests: (ApplyRequest & { readonly expect?: object })[];
}

/** A gateway that always has this plan. */
async function gateway(objects: readonly ObjectPlan[]): Promise<Gateway> {
  const requests: Gateway["requests"] = [];
  const made = await stand({
    "GET /api/health": ({ response }) => json(response, { status: "ok" }),
    "POST /api/apply": ({ response, body }: Asked) => {
      const request = body as ApplyRequest;
      requests.push(request);
      const plan = { ...planOf(objects), ...(request.detail === true && { basis: BASIS }) };
      ndjson(response, [
        { type: "plan", plan },
        { type: "end", exit: 0, applied: objects.length, unchanged: 0, failed: 0, message: "" },
      ]);
    },
  });
  stands.push(made);
  writeFileSync(join(made.home, "a.yaml"), "kind: Agent\n");
  return { made, requests };
}

/** Runs the program on a terminal of its own and types. */
function onTerminal(
  made: Stand,
  args: readonly string[],
  typed: string,
): Promise<{ readonly code: number | null; readonly shown: string }> {
  const words = [process.execPath, main, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  return new Promise((done) => {
    const env = { PATH: process.env["PATH"] ?? "", HOME: made.home, BEIGE_HOME: made.home, LANG: "C.UTF-8", TERM: "xterm", NO_COLOR: "1" };
    const child = spawn("script", ["-qec", words, "/dev/null"], { cwd: made.home, env, stdio: ["pipe", "pipe", "inherit"] });
    let shown = "";
    let answered = false;
    child.stdout.on("data", (part: Buffer) => {
      shown += part.toString();
      if (!answered && shown.includes("[y/N]")) {
        answered = true;
        child.stdin.write(`${typed}\n`);
      }
    });
    child.on("close", (code) => done({ code, shown }));
  });
}

const real = ({ requests }: Gateway) => requests.filter((request) => !request.dryRun);

test("on a terminal a replacement is shown and asked for, and what was shown is what is done", async () => {
  const there = await gateway([one("replace", "travel"), one("update", "other")]);
  const ran = await onTerminal(there.made, ["apply", "-f", "a.yaml"], "y");
  expect(ran).toMatchObject({ code: 0, shown: expect.stringContaining("Replace 1 object? [y/N]") });
  expect(ran.shown).toMatch(/agent\/travel +\+\/- replace/);
  expect(real(there)).toMatchObject([{ expect: BASIS }]);
});

test.each(["n", "", "maybe"])("an answer of %o changes nothing, exit 3", async (typed) => {
  const there = await gateway([one("replace", "travel"), one("delete", "old")]);
  const ran = await onTerminal(there.made, ["apply", "-f", "a.yaml", "--prune"], typed);
  expect(ran).toMatchObject({ code: 3, shown: expect.stringContaining("Replace 1 object and delete 1 object? [y/N]") });
  expect(real(there)).toEqual([]);
});

test("nobody is asked for what loses nothing, with --yes, or in a pipe", async () => {
  const mild = await gateway([one("update", "travel"), one("create", "new")]);
  expect((await onTerminal(mild.made, ["apply", "-f", "a.yaml"], "")).code).toBe(0);
  expect(real(mild)).toHaveLength(1);
  const rough = await gateway([one("replace", "travel")]);
  expect((await onTerminal(rough.made, ["apply", "-f", "a.yaml", "--yes"], "")).code).toBe(0);
  expect((await rough.made.run(["apply", "-f", "a.yaml"])).code).toBe(0);
  expect(rough.requests.map((request) => request.dryRun)).toEqual([false, false]);
});

test("pruning in a pipe needs --yes: nothing is changed without it", async () => {
  const there = await gateway([one("delete", "old")]);
  expect(await there.made.run(["apply", "-f", "a.yaml", "--prune"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("--yes says yes"),
  });
  expect(real(there)).toEqual([]);
  expect((await there.made.run(["apply", "-f", "a.yaml", "--prune", "--yes", "--max-deletes", "50%", "--allow-empty"])).code).toBe(0);
  expect(real(there)).toMatchObject([{ prune: true, maxDeletes: "50%", allowEmpty: true }]);
});

test("a plan is saved by diff without the values of variables, and carried out from another folder", async () => {
  const there = await gateway([one("replace", "travel")]);
  writeFileSync(join(there.made.home, "a.yaml"), "kind: Agent\nkey: ${KEY}\n");
  const env = { KEY: "planted-value" };
  const diff = await there.made.run(["diff", "-f", "a.yaml", "-o", "json", "--set", "ops", "--prune", "--max-deletes", "3"], { env });
  expect(diff).toMatchObject({ code: 1, out: expect.stringContaining('"basis"') });
  expect(diff.out).not.toContain("planted-value");
  const elsewhere = join(there.made.home, "elsewhere");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "plan.json"), diff.out);
  expect((await there.made.run(["apply", "--plan", "plan.json"], { env, cwd: elsewhere })).code).toBe(0);
  expect(real(there)).toMatchObject([
    {
      set: "ops",
      prune: true,
      maxDeletes: 3,
      expect: BASIS,
      files: [{ name: "a.yaml", folder: there.made.home, vars: { KEY: "planted-value" } }],
    },
  ]);
});

test("-f says where the manifests of a saved plan are now", async () => {
  const there = await gateway([one("update", "travel")]);
  const plan = JSON.parse((await there.made.run(["apply", "-f", "a.yaml", "--dry-run", "-o", "json"])).out) as object;
  writeFileSync(
    join(there.made.home, "plan.json"),
    JSON.stringify({ ...plan, from: { ...("from" in plan ? (plan.from as object) : {}), folder: "/nowhere" } }),
  );
  expect((await there.made.run(["apply", "--plan", "plan.json"])).code).toBe(2);
  expect((await there.made.run(["apply", "--plan", "plan.json", "-f", "a.yaml"])).code).toBe(0);
  expect(real(there)).toMatchObject([{ expect: BASIS }]);
});

test.each<[string, string, RegExp]>([
  ["nothing", "", /is not JSON/],
  ["half a file", '{"objects": [', /is not JSON/],
  ["null", "null", /is not a saved plan/],
  ["another object", '{"kind":"Agent"}', /is not a saved plan/],
  ["a basis of another shape", '{"basis":{"store":1},"from":{}}', /is not a saved plan/],
  [
    "a plan against files",
    '{"objects":[],"from":{"files":[],"recursive":false,"folder":"/","set":"a","prune":false,"forceConflicts":false}}',
    /not made against what runs/,
  ],
])("a plan file that holds %s is refused, exit 2", async (_name, text, why) => {
  const there = await gateway([]);
  writeFileSync(join(there.made.home, "plan.json"), text);
  const ran = await there.made.run(["apply", "--plan", "plan.json"]);
  expect([ran.code, real(there)]).toEqual([2, []]);
  expect(ran.err).toMatch(why);
});

test("flags that the plan has said are refused beside it", async () => {
  const there = await gateway([]);
  writeFileSync(join(there.made.home, "plan.json"), "{}");
  const ran = await there.made.run(["apply", "--plan", "plan.json", "--prune"]);
  expect(ran).toMatchObject({ code: 2, err: expect.stringContaining("--prune is said by the plan itself") });
  expect(readFileSync(join(there.made.home, "plan.json"), "utf8")).toBe("{}");
});

test.each(["many", "-1", "30 %", "1.5"])("--max-deletes %s is refused before anything is asked", async (given) => {
  const there = await gateway([]);
  const ran = await there.made.run(["apply", "-f", "a.yaml", `--max-deletes=${given}`]);
  expect([ran.code, there.requests]).toEqual([2, []]);
});
