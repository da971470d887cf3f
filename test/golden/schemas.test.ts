// The schemas keep their word: every field is described and acts, what is generated from them is fresh, and editors see what we see.
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv } from "ajv";
import { expect, test } from "vitest";
import { readManifests } from "../../src/core/manifest.ts";
import { normaliseSpec } from "../../src/core/normalise.ts";
import { SCHEMAS, resolve } from "../../src/core/schema.ts";
import type { Schema } from "../../src/core/schema.ts";
import { validateObject } from "../../src/core/validate.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

interface Leaf {
  readonly path: string;
  readonly schema: Schema;
}

/** Every field below a spec; members of free mappings are `*`, items of lists `[]`. */
function fieldsOf(schema: Schema, path = ""): readonly (Leaf & { readonly leaf: boolean })[] {
  const node = resolve(schema);
  const step = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const branches = [node, ...(node.anyOf ?? []).map(resolve)];
  const below = branches.flatMap((b) => Object.entries(b.properties ?? {}).flatMap(([key, own]) => fieldsOf(own, step(key))));
  const free =
    typeof node.additionalProperties === "object" && resolve(node.additionalProperties).properties
      ? fieldsOf(node.additionalProperties, step("*"))
      : [];
  const items = node.items && resolve(node.items).properties ? fieldsOf(node.items, step("[]")) : [];
  const inside = node["x-beige-not-yet"] === true ? [] : [...below, ...free, ...items];
  return [{ path, schema: node, leaf: inside.length === 0 }, ...inside];
}

const specs = [...SCHEMAS].map(([kind, schema]) => ({ kind, fields: fieldsOf(resolve(schema).properties?.["spec"] ?? {}) }));

const BUDGET: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ["daily", "monthly"].flatMap((period) =>
      ["usd", "tokens", "requests"].map((measure) => [`budget.${period}.${measure}`, `src/core/budget.ts ${measure}`]),
    ),
  ),
  "budget.unknownPrice": "src/core/budget.ts unknownPrice",
};

/** What makes each leaf act: a room and the word that it reads. `only`: this version has one value. */
const ACTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Provider: {
    api: "src/gateway api",
    baseUrl: "src/gateway baseUrl",
    "apiKey.secret": "src/core/hostpolicy.ts secret",
    "apiKey.env": "src/core/hostpolicy.ts env",
    concurrency: "src/gateway concurrency",
    timeoutSeconds: "src/gateway timeoutSeconds",
    ...BUDGET,
    "models.[].id": "src/gateway models",
    "models.[].contextWindow": "src/adapters/pi contextWindow",
    "models.[].maxTokens": "src/adapters/pi maxTokens",
    "models.[].input": "src/adapters/pi input",
    "models.[].reasoning": "src/adapters/pi reasoning",
    "models.[].cost.input": "src/core/usage.ts input",
    "models.[].cost.output": "src/core/usage.ts output",
    "models.[].cost.cacheRead": "src/core/usage.ts cacheRead",
    "models.[].cost.cacheWrite": "src/core/usage.ts cacheWrite",
    "echo.steps.[].match": "src/gateway/echo.ts match",
    "echo.steps.[].from": "src/gateway/echo.ts from",
    "echo.steps.[].text": "src/gateway/echo.ts text",
    "echo.steps.[].toolCall.tool": "src/gateway/echo.ts tool",
    "echo.steps.[].toolCall.args": "src/gateway/echo.ts args",
    "echo.steps.[].error.status": "src/gateway/echo.ts status",
    "echo.steps.[].error.retryAfterMs": "src/gateway/echo.ts retryAfterMs",
    "echo.steps.[].delayMs": "src/gateway/echo.ts delayMs",
  },
  Plugin: {
    "source.builtin": "src/gateway/plugins builtin",
    "source.path": "src/gateway/plugins path",
    config: "src/gateway config",
    "secrets.*.secret": "src/core/hostpolicy.ts secret",
    "secrets.*.env": "src/core/hostpolicy.ts env",
  },
  Agent: {
    "model.provider": "src/gateway provider",
    "model.id": "src/gateway id",
    "model.thinking": "src/gateway thinking",
    "model.compactAt": "src/gateway compactAt",
    "fallbacks.[].provider": "src/gateway fallbacks",
    "fallbacks.[].id": "src/gateway fallbacks",
    "instructions.file": "src/core/build.ts file",
    coreTools: "src/core/policy.ts coreTools",
    tools: "src/core/policy.ts tools",
    plugins: "src/gateway plugins",
    "sandbox.backend": "controllers/agent backend",
    "sandbox.image": "controllers/agent image",
    "sandbox.start": "controllers/agent start",
    "sandbox.profile": "controllers/agent profile",
    "sandbox.runtime": "controllers/agent runtime",
    "sandbox.scope": "only",
    "sandbox.path": "controllers/agent path",
    "sandbox.resources.memory": "controllers/agent memory",
    "sandbox.resources.cpus": "controllers/agent cpus",
    "sandbox.resources.pids": "controllers/agent pids",
    "sandbox.resources.tmp": "controllers/agent tmp",
    "sandbox.resources.disk": "src/core/disk.ts disk",
    "sandbox.packages": "src/core/packages.ts packages",
    "sandbox.network.mode": "controllers/agent mode",
    "sandbox.network.allow": "src/core/egress.ts allow",
    "sandbox.mounts.[].source": "controllers/agent source",
    "sandbox.mounts.[].target": "controllers/agent target",
    "sandbox.mounts.[].readOnly": "controllers/agent readOnly",
    "sandbox.env": "controllers/agent env",
    "workspace.path": "controllers/agent path",
    "workspace.onDelete": "controllers/agent onDelete",
    "workspace.snapshot": "src/daemon/traffic.ts snapshot",
    "workspace.shared": "controllers/agent shared",
    "update.strategy": "controllers/agent strategy",
    "update.drainTimeoutSeconds": "controllers/agent drainTimeoutSeconds",
    suspend: "src/core/policy.ts suspend",
    ...BUDGET,
  },
  Schedule: {
    agent: "controllers/schedule agent",
    cron: "controllers/schedule cron",
    timeZone: "controllers/schedule timeZone",
    input: "controllers/schedule input",
    concurrency: "controllers/schedule concurrency",
    catchUp: "controllers/schedule catchUp",
    catchUpWindowSeconds: "controllers/schedule catchUpWindowSeconds",
    suspend: "controllers/schedule suspend",
  },
  Source: {
    path: "controllers/source path",
    prune: "controllers/source prune",
    selfHeal: "controllers/source selfHeal",
    interval: "controllers/source interval",
    suspend: "controllers/source suspend",
    maxDeletes: "controllers/source maxDeletes",
    allowEmpty: "controllers/source allowEmpty",
    vars: "controllers/source vars",
  },
};

function source(room: string): string {
  const path = join(root, room);
  if (!statSync(path).isDirectory()) return readFileSync(path, "utf8");
  const names = readdirSync(path).filter((name) => !name.endsWith(".test.ts"));
  return names.map((name) => (statSync(join(path, name)).isDirectory() || name.endsWith(".ts") ? source(join(room, name)) : "")).join("\n");
}

test("every field says what it is, and every leaf what a change of it does", () => {
  for (const { kind, fields } of specs) {
    for (const { path, schema, leaf } of fields) {
      const items = path.endsWith("[]") || path.endsWith("*");
      if (!items) expect([kind, path, (schema.description ?? "").length > 3]).toEqual([kind, path, true]);
      if (leaf) expect([kind, path, typeof schema["x-beige-impact"]]).toEqual([kind, path, "string"]);
    }
  }
});

test("every leaf acts, or is refused as not in this version", () => {
  for (const { kind, fields } of specs) {
    const leaves = fields.filter((f) => f.leaf && f.schema["x-beige-not-yet"] !== true);
    expect(leaves.map((f) => f.path).toSorted()).toEqual(Object.keys(ACTS[kind] ?? {}).toSorted());
    for (const { path, schema } of leaves) {
      const acts = ACTS[kind]?.[path] ?? "";
      const later = schema["x-beige-not-yet"];
      if (acts === "only") {
        expect([path, schema.enum?.filter((v) => !Array.isArray(later) || !later.includes(v)).length]).toEqual([path, 1]);
        continue;
      }
      const [room = "", word = ""] = acts.split(" ");
      expect([path, new RegExp(`\\b${word}\\b`).test(source(room))]).toEqual([path, true]);
    }
  }
});

test("defaults fit their own schema, so that what get shows can be applied", () => {
  for (const [kind, schema] of SCHEMAS) {
    for (const example of schema.examples ?? []) {
      const object = example as Record<string, unknown>;
      expect([kind, validateObject(object)]).toEqual([kind, []]);
      expect([kind, validateObject({ ...object, spec: normaliseSpec(kind, object["spec"]) })]).toEqual([kind, []]);
    }
    expect(schema.examples).toHaveLength(1);
  }
});

test("what is generated from the schemas is fresh", () => {
  const run = spawnSync(process.execPath, [join(root, "scripts/gen.ts"), "--check"], { encoding: "utf8" });
  expect([run.stderr, run.status]).toEqual(["", 0]);
}, 60_000);

const editor = new Ajv({ strict: false, validateFormats: false }).compile(
  JSON.parse(readFileSync(join(root, "schemas/beige.json"), "utf8")) as object,
);

/** Each valid object with one thing wrong, by place. */
function spoilt(value: unknown, done: (changed: unknown) => void): void {
  if (typeof value !== "object" || value === null) {
    for (const other of [null, 5.5, true, "", "Ünknown value!", [], {}]) if (other !== value) done(other);
    return;
  }
  if (Array.isArray(value)) {
    done("text");
    for (const [i, item] of value.entries()) spoilt(item, (changed) => done(value.with(i, changed)));
    return;
  }
  done(null);
  done({ ...value, wrong: 1 });
  for (const key of Object.keys(value)) {
    const { [key as never]: _gone, ...rest } = value;
    done(rest);
    spoilt((value as Record<string, unknown>)[key], (changed) => done({ ...value, [key]: changed }));
  }
}

test("an editor with beige.json accepts and refuses what validation does, in every document that ships and its mutants", () => {
  const folder = join(root, "manifests");
  let mutants = 0;
  for (const name of readdirSync(folder).filter((n) => n.endsWith(".yaml"))) {
    const { documents } = readManifests([
      { name, text: readFileSync(join(folder, name), "utf8"), vars: {}, files: { "./writer.md": "x" } },
    ]);
    for (const document of documents) {
      expect([name, document.index, editor(document.value)]).toEqual([name, document.index, true]);
      spoilt(document.value, (changed) => {
        mutants++;
        const ours = validateObject(changed).length === 0;
        if (editor(changed) !== ours) expect([changed, editor(changed)]).toEqual([changed, ours]);
      });
    }
  }
  expect(mutants).toBeGreaterThan(500);
});

test("an editor does not offer what is not in this version", () => {
  const base = { apiVersion: "beige.dev/v1", kind: "Agent", metadata: { name: "a" } };
  const spec = { model: { provider: "p", id: "m" } };
  expect(editor({ ...base, spec })).toBe(true);
  for (const later of [{ sandbox: { envFrom: ["X"] } }, { sandbox: { scope: "session" } }, { skills: [] }]) {
    expect([later, editor({ ...base, spec: { ...spec, ...later } })]).toEqual([later, false]);
    expect([later, validateObject({ ...base, spec: { ...spec, ...later } }).length]).toEqual([later, 1]);
  }
});
