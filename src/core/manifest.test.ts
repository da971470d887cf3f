import fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import type { ManifestFile } from "./control.ts";
import { parseYaml, readManifests, readingManifests, toYaml } from "./manifest.ts";
import type { Manifests } from "./manifest.ts";
import { normalise } from "./normalise.ts";
import { sameSpec } from "./diff.ts";
import { plainValue } from "./tree.ts";
import { validateDocument } from "./validate.ts";

/** Time of this process alone: the machine may be busy with others. */
const cpuMs = (): number => process.cpuUsage().user / 1000;

const read = (text: string, more: Partial<ManifestFile> = {}): Manifests =>
  readManifests([{ name: "s.yaml", text, vars: {}, files: {}, ...more }]);
const agent = (spec: string, name = "travel"): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: ${name}}\nspec:\n  model: {provider: p, id: m}\n${spec}`;
const valueOf = (m: Manifests, index = 0): Record<string, unknown> => (m.documents[index]?.value ?? {}) as Record<string, unknown>;
const spec = (m: Manifests, index = 0): Record<string, unknown> => valueOf(m, index)["spec"] as Record<string, unknown>;
const places = (m: Manifests): readonly string[] => m.problems.map((p) => `${String(p.at?.line)}:${String(p.at?.column)} ${p.message}`);

test("empty and comment-only documents are skipped and still counted", () => {
  const m = read(`${agent("", "a")}---\n---\n# only a comment\n---\n${agent("", "b")}`);
  expect(m.problems).toEqual([]);
  expect(m.documents.map((d) => [d.index, d.ref?.name])).toEqual([
    [1, "a"],
    [4, "b"],
  ]);
  for (const nothing of ["", "\n", "# c\n", "---\n", "--- \n...\n---\n", "\ufeff", "~", "null"])
    expect([nothing, read(nothing).documents]).toEqual([nothing, []]);
});

test("positions count from the start of the file, whatever the document and the line ends", () => {
  for (const end of ["\n", "\r\n"]) {
    const m = read(`${agent("", "a")}---\n---\n${agent("  tool: [git]\n", "b")}`.replaceAll("\n", end));
    expect(m.documents[1]?.at("/spec/tool", "key")).toEqual({ file: "s.yaml", line: 13, column: 3, document: 3 });
    expect(m.documents[1]?.at("/spec/tool/0")).toMatchObject({ line: 13, column: 10 });
    expect(m.documents[1]?.at("/spec/missing/x")).toMatchObject({ line: 11, column: 1 });
    expect(m.documents[1]?.line(13)).toBe("  tool: [git]");
  }
});

test("a key that is there twice is refused, and both lines are named", () => {
  const m = read(agent("  tools: [a]\n  suspend: true\n  tools: [b]\n"));
  expect(places(m)).toEqual(['8:3 key "tools" is here twice']);
  expect(m.problems[0]?.hint).toBe("it is first on line 6; remove one");
  for (const twice of ['  env: {A: 1, "A": 2}\n', "  1: a\n  '1': b\n", "  ? x\n  : 1\n  x: 2\n"])
    expect(places(read(agent(twice)))[0]).toMatch(/here twice/);
});

test("an object that is there twice is refused, over files too", () => {
  const files = [agent(""), `---\n${agent("")}`].map((text, i) => ({ name: `${String(i)}.yaml`, text, vars: {}, files: {} }));
  const m = readManifests(files);
  expect(m.problems.map((p) => [p.message, p.at?.file, p.hint])).toEqual([
    ["Agent/travel is here twice", "1.yaml", "it is first at 0.yaml:3; rename or remove one"],
  ]);
  expect(read(`${agent("")}---\n${agent("").replace("{name: travel}", "{name: travel, namespace: b}")}`).problems).toEqual([]);
  expect(read(`${agent("")}---\n${agent("").replace("{name: travel}", "{name: travel, namespace: default}")}`).problems).toHaveLength(1);
});

test("merges work, also twice, and own keys win", () => {
  const text = agent("  sandbox:\n    env:\n      <<: *a\n      <<: [*b, *c]\n      A: own\n").replace(
    "metadata: {name: travel}",
    "metadata: {name: travel, labels: &a {A: '1', B: '1'}, annotations: &b {B: '2', C: '2'}}\nx: &c {C: '3', D: '3'}",
  );
  const m = read(text);
  expect(m.problems).toEqual([]);
  expect(spec(m)["sandbox"]).toEqual({ env: { A: "own", B: "1", C: "2", D: "3" } });
  expect(places(read(agent("  sandbox: {<<: 5}\n")))).toEqual(["6:17 << merges mappings only"]);
  expect(spec(read(agent('  sandbox: {"<<": x}\n')))["sandbox"]).toEqual({ "<<": "x" });
});

test("an alias bomb, deep nesting and endless entries are ordinary problems, fast and small", () => {
  const levels = Array.from(
    { length: 9 },
    (_, i) =>
      `l${String(i + 1)}: &l${String(i + 1)} [${Array(10)
        .fill(`*l${String(i)}`)
        .join(",")}]`,
  );
  const hostile: Record<string, string> = {
    bomb: `l0: &l0 [x,x]\n${levels.join("\n")}\n`,
    "merge bomb": `a: &a {${Array.from({ length: 900 }, (_, i) => `k${String(i)}: 1`).join(", ")}}\nb:\n${"  - {<<: *a}\n".repeat(1500)}`,
    itself: "a: &a [*a]\n",
    "20,000 brackets": "[".repeat(20_000),
    "20,000 braces": "a: {".repeat(20_000),
    "20,000 dashes": `${"- ".repeat(20_000)}x`,
    "20,000 questions": `${"? ".repeat(20_000)}x`,
    "4 MiB of brackets": "[".repeat(4_000_000),
    "many anchors": "&a ".repeat(100_000),
    "many tags": `a: ${"!!str ".repeat(100_000)}`,
    commas: `[${",".repeat(100_000)}`,
    "many keys": Array.from({ length: 200_000 }, (_, i) => `k${String(i)}: 1`).join("\n"),
    "many documents": "---\n".repeat(300_000),
    "too large": "a".repeat(5_000_000),
    "wide indent": Array.from({ length: 2000 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"),
  };
  const before = process.memoryUsage().rss;
  for (const [name, text] of Object.entries(hostile)) {
    const started = cpuMs();
    const m = read(text);
    expect([name, m.problems.length > 0, m.documents.length]).toEqual([name, true, 0]);
    expect([name, cpuMs() - started < 2000]).toEqual([name, true]);
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(400_000_000);
});

test("unknown tags, unresolved aliases and keys that reach for a prototype are refused (P23)", () => {
  const told = (text: string): string => places(read(text)).join("\n");
  expect(told("a: !foo x")).toMatch(/^1:4 not valid YAML: unresolved tag: !foo/);
  expect(told("a: !!binary aGk=")).toMatch(/tag/);
  expect(told("a: *nobody")).toMatch(/nobody/);
  expect(told("a: *later\nb: &later x")).toMatch(/later/);
  for (const key of ["__proto__", "constructor", "prototype"]) expect(told(`a: {${key}: {x: 1}}`)).toBe(`1:5 key "${key}" is not allowed`);
  expect(told("? [a]\n: b")).toMatch(/a key must be a word/);
  expect(told("a: .inf\nb: 12345678901234567890")).toMatch(/not a finite number[\s\S]*too large/);
  expect(told("- a\n- b")).toMatch(/a list, not an object/);
  expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
});

test("variables go into every text, once, and are told where they are missing", () => {
  const vars = { HOST: "h", DEEP: "${HOST}" };
  const m = read(
    agent(
      '  instructions: |\n    on ${HOST} $${HOST}\n    costs $5\n  sandbox: {env: {A: "${DEEP}", B: "x-${NONE:-d}"}}\n  tools: ["${HOST}"]\n',
    ),
    { vars },
  );
  expect(m.problems).toEqual([]);
  expect(spec(m)).toMatchObject({ instructions: "on h ${HOST}\ncosts $5\n", sandbox: { env: { A: "${HOST}", B: "x-d" } }, tools: ["h"] });
  expect(m.documents[0]?.variables("/spec/sandbox/env/A")).toEqual(["DEEP"]);
  const bad = read(agent("  sandbox:\n    env:\n      A: 'a ${ONE} ${TWO'\n      B: \"\\tx ${ONE}\"\n"));
  expect(places(bad)).toEqual(["8:13 ${ONE} is not set", '8:20 "${TWO" is no variable', "9:15 ${ONE} is not set"]);
  expect(bad.problems[0]).toMatchObject({
    path: "/spec/sandbox/env/A",
    object: "Agent/travel",
    hint: "set it, or give a default: ${ONE:-}",
  });
});

test("a variable inside braces is told to be quoted", () => {
  expect(read(agent("  sandbox: {env: {A: ${X}}}\n")).problems[0]?.hint).toMatch(/quote/);
});

const provider = (apiKey: string): string =>
  `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec:\n  api: echo\n  apiKey: ${apiKey}\n`;

test("a whole variable in a secret field is a reference, and its value is never looked at", () => {
  expect(spec(read(provider("${KEY}"), { vars: { KEY: "sk-live-abcdefghijk" } }))["apiKey"]).toEqual({ env: "KEY" });
  expect(spec(read(provider("{secret: openai}")))["apiKey"]).toEqual({ secret: "openai" });
  expect(read(provider("{env: '${KEY}'}"), { vars: { KEY: "sk-live-abcdefghijk" } }).problems[0]?.hint).toBe("name it: {env: KEY}");
});

test("a secret in the clear is refused with the fix and never repeated, nor is its line", () => {
  const secret = "sk-ant-api03-s3cr3ts3cr3t";
  const forms = [
    secret,
    `"${secret}"`,
    `|\n    ${secret}`,
    `{value: ${secret}}`,
    `{secret: ${secret}}`,
    `{env: ${secret}}`,
    `[${secret}]`,
    `{secret: a, x: ${secret}}`,
    `"x${secret}\${KEY}"`,
    `{api: {key: ${secret}}}`,
  ];
  for (const form of forms) {
    for (const text of [
      provider(form),
      provider(form).replace("Provider", "Provdier"),
      `${provider(form)}  wrong: ${secret}\n  bad: [\n`,
    ]) {
      const m = read(text, { vars: { KEY: secret } });
      const all = [...m.problems, ...m.documents.flatMap((d) => validateDocument(d))];
      expect(all.length).toBeGreaterThan(0);
      expect([form, JSON.stringify(all).includes("s3cr3t")]).toEqual([form, false]);
    }
  }
  expect(read(provider(secret)).problems[0]?.hint).toBe(
    "name it instead: apiKey: {secret: NAME} (beige secret set NAME), or apiKey: {env: VARIABLE}",
  );
});

test("a line that also holds a secret is not shown for another problem of it", () => {
  const m = read("apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p}\nspec: {api: ecko, apiKey: hunter2hunter2}\n");
  const all = [...m.problems, ...m.documents.flatMap((d) => validateDocument(d))];
  expect(all.map((p) => p.path)).toEqual(["/spec/apiKey", "/spec/api"]);
  expect(JSON.stringify(all)).not.toContain("hunter2");
});

test("text files become text, are asked for once, and stay below the folder", () => {
  const text = agent("  instructions: {file: ./a.md}\n");
  expect(read(text).needFiles).toEqual([{ manifest: "s.yaml", path: "./a.md" }]);
  const given = read(text, { files: { "./a.md": "Cost: ${NOT_A_VARIABLE} $5\n" } });
  expect([given.needFiles, given.problems, spec(given)["instructions"]]).toEqual([[], [], "Cost: ${NOT_A_VARIABLE} $5\n"]);
  for (const out of ["/etc/passwd", "../x", "a/../../x", "${UP}/x"]) {
    const m = read(agent(`  instructions: {file: "${out}"}\n`), { vars: { UP: ".." }, files: { [out]: "x" } });
    expect([out, m.problems[0]?.message, m.needFiles]).toEqual([out, "spec.instructions names a file outside the manifest's folder", []]);
  }
  expect(read(agent("  instructions: {file: toString}\n")).needFiles).toHaveLength(1);
});

test("what get prints can be applied: status and written metadata are dropped, words keep their meaning", () => {
  const m = read(
    `${agent("")}status: {observedGeneration: 1}\n`.replace(
      "{name: travel}",
      "{name: travel, uid: u, namespace: '', resourceVersion: '5', generation: 2, creationTimestamp: t, managedFields: [], finalizers: [x]}",
    ),
  );
  expect(Object.keys(m.documents[0]?.value as object)).toEqual(["apiVersion", "kind", "metadata", "spec"]);
  expect(valueOf(m)["metadata"]).toEqual({ name: "travel" });
});

test("printed YAML quotes what a YAML 1.1 reader would take for something else (P13)", () => {
  const words = [
    "no",
    "yes",
    "on",
    "off",
    "y",
    "n",
    "12:30",
    "0o7",
    "010",
    "1_000",
    "0b1",
    "~",
    "null",
    "2001-01-01",
    "1e3",
    ".5",
    "=",
    "<<",
    "",
    " a",
    "true",
    "0x1f",
  ];
  const out = toYaml(words);
  for (const line of out.trim().split("\n")) expect([line, /^- ["']/.test(line)]).toEqual([line, true]);
  expect(plainValue(parseYaml(out).tree ?? { kind: "seq", offset: 0, items: [] })).toEqual(words);
});

test("a YAML 1.1 reader reads from printed YAML what ours does, in keys and in values (P13)", () => {
  const oneOne = (text: string): unknown => parse(text, { version: "1.1", schema: "yaml-1.1" }) as unknown;
  // What a reader of 1.1 does with these unquoted: false, 750, 8, a date, a merge.
  expect(oneOne("[no, 12:30, 010, 1_000]")).toEqual([false, 750, 8, 1000]);
  const parts = [
    "y",
    "no",
    "On",
    "NULL",
    "~",
    "0",
    "1",
    "7",
    "9",
    ":",
    "_",
    ".",
    "e",
    "+",
    "-",
    "0x",
    "0b",
    "inf",
    "nan",
    "=",
    "<",
    " ",
    "#",
    "T",
    "\n",
  ];
  const word = fc.oneof(
    fc.array(fc.constantFrom(...parts), { maxLength: 5 }).map((all) => all.join("")),
    fc.string({ maxLength: 6 }),
  );
  const known = ["no", "12:30", "190:20:30", "-1:30.5", "2001-01-01", "2001-1-1 1:2:3", "1_000.5", "0o7", ".inf", "=", "<<"];
  const check = (text: string): void => {
    fc.pre(text !== "__proto__");
    const value = { [text]: text, list: [text, { [text]: [text] }] };
    const out = toYaml(value);
    expect([out, oneOne(out)]).toEqual([out, value]);
  };
  for (const text of known) check(text);
  fc.assert(fc.property(word, check), { numRuns: 2000 });
});

test("printed text comes back the same, variables and all", () => {
  const json = fc.jsonValue({
    maxDepth: 4,
    stringUnit: fc.constantFrom("a", "$", "{", "}", ":", "-", "#", "\n", " ", "'", '"', "é", "😀", "\\", "\t", "!", "&", "*", "%"),
  });
  fc.assert(
    fc.property(fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), json), (value) => {
      // -0 is printed as 0, as JSON does.
      const clean = JSON.parse(JSON.stringify(value), (_key, v: unknown) =>
        Number.isInteger(v) && !Number.isSafeInteger(v) ? 0 : v,
      ) as unknown;
      const m = read(toYaml({ x: clean }, { escape: true }));
      expect([m.problems, valueOf(m)["x"]]).toEqual([[], clean]);
    }),
    { numRuns: 500 },
  );
});

test("applying what was rendered changes nothing", () => {
  const words = fc.string({ unit: "binary", maxLength: 12 }).filter((s) => !s.includes("\0") && s.isWellFormed());
  const specs = fc.record({
    model: fc.record({ provider: fc.constant("p"), id: fc.stringMatching(/^[a-z]{1,8}$/) }),
    instructions: words,
    tools: fc.uniqueArray(fc.stringMatching(/^[a-z]{1,8}$/), { maxLength: 4 }),
    sandbox: fc.record({
      env: fc.dictionary(fc.stringMatching(/^[A-Z]{1,4}$/), words),
      resources: fc.record({ memory: fc.constantFrom("1Gi", "1G", 1073741824) }),
    }),
  });
  fc.assert(
    fc.property(specs, (value) => {
      const object = { apiVersion: "beige.dev/v1", kind: "Agent", metadata: { name: "a" }, spec: value };
      const shown = normalise("Agent", object);
      const m = read(toYaml(shown, { escape: true }));
      expect([...m.problems, ...m.documents.flatMap((d) => validateDocument(d))]).toEqual([]);
      expect(sameSpec("Agent", spec(m), value)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test("JSON is read too", () => {
  expect(
    read(JSON.stringify({ apiVersion: "beige.dev/v1", kind: "Plugin", metadata: { name: "x" }, spec: { source: { builtin: "x" } } }))
      .documents[0]?.ref,
  ).toEqual({ kind: "Plugin", namespace: "", name: "x" });
});

test("a file of a thousand documents is read, and in many steps", () => {
  const models = Array.from({ length: 3 }, (_, i) => `{id: m${i}, contextWindow: 200000, cost: {input: 3, output: 15}}`).join(", ");
  const one = (i: number): string =>
    `apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: p${i}}\nspec: {api: echo, models: [${models}]}\n`;
  const text = Array.from({ length: 1000 }, (_, i) => one(i)).join("---\n");
  const steps = readingManifests([{ name: "s.yaml", text, vars: {}, files: {} }]);
  let count = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) count += 1;
  expect([step.value.problems, step.value.documents.length]).toEqual([[], 1000]);
  expect(count).toBeGreaterThan(2000);
});

test("printed YAML has no plain word with a tab and no bare character that a YAML 1.1 reader stumbles over", () => {
  const words = ["a\tb", "=\ttab", "\tx", "x\t", "a\u0085b", "a\u2028b", "\u2029", "a\u007f", "\ufffe", "a\uffff", "\ufeffa", "\u0080x"];
  for (const word of words) {
    for (const value of [{ a: word }, { a: [word] }, { m: { [word]: "1" } }]) {
      const out = toYaml(value);
      // eslint-disable-next-line no-control-regex -- these are the characters that must not be there
      expect([out, /[\t\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/.test(out)]).toEqual([out, false]);
      expect(plainValue(parseYaml(out).tree ?? { kind: "seq", offset: 0, items: [] })).toEqual(value);
    }
  }
});

test("a list as get -o json prints it is its items, each with its own place", () => {
  const one = (name: string, spec: unknown) => ({ apiVersion: "beige.dev/v1", kind: "Provider", metadata: { name }, spec });
  const items = [one("a", { api: "echo" }), one("b", { api: "nonsense" })];
  const text = JSON.stringify({ apiVersion: "beige.dev/v1", kind: "List", items }, undefined, 1);
  const read = readManifests([{ name: "s.json", text, vars: {}, files: {} }]);
  expect([read.problems, read.documents.map((d) => d.ref?.name)]).toEqual([[], ["a", "b"]]);
  const at = read.documents[1]?.at("/spec/api");
  expect(text.split("\n")[(at?.line ?? 0) - 1]).toContain("nonsense");
  for (const odd of ["kind: List", "kind: List\nitems: 3", "kind: List\nitems: [1, [2]]"])
    expect(readManifests([{ name: "s.yaml", text: odd, vars: {}, files: {} }]).documents.every((d) => d.ref === undefined)).toBe(true);
});
