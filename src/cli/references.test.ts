import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { kinds } from "../../controllers/index.ts";
import { readManifests } from "../core/manifest.ts";
import { normalise } from "../core/normalise.ts";
import { stand, type Stand } from "./harness.ts";
import { needsOf } from "./references.ts";

let at: Stand | undefined;
afterEach(() => at?.close());

const STACK = `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: anthropic}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: travel}
spec:
  model: {provider: antropic, id: a}
  fallbacks: [{provider: anthropic, id: b}, {provider: zai, id: c}]
  tools: [memory, git/status]
  plugins: {git: {}}
---
apiVersion: beige.dev/v1
kind: Schedule
metadata: {name: daily, namespace: ops}
spec: {agent: travel, cron: "0 9 * * *", input: Hello}
`;

test("validate warns of what is not among the manifests, with its place; --strict makes an error of it", async () => {
  at = await stand();
  writeFileSync(join(at.home, "s.yaml"), STACK);
  const args = ["validate", "-f", "s.yaml"];
  const ran = await at.run(args);
  expect([ran.code, ran.out]).toEqual([0, "3 objects in 1 file: valid\n"]);
  expect(ran.err.match(/^warning: .*/gm)).toEqual([
    'warning: Provider "antropic" is not among these manifests',
    'warning: Provider "zai" is not among these manifests',
    'warning: Plugin "git" is not among these manifests',
    'warning: Plugin "git" is not among these manifests',
    'warning: Agent "ops.travel" is not among these manifests',
  ]);
  expect(ran.err).toMatch(/--> s\.yaml:10:21 {3}Agent\/travel, spec\.model\.provider.*\n.*\n.*\n.*did you mean "anthropic"\?/);
  const strict = await at.run([...args, "--strict"]);
  expect([strict.code, strict.out]).toEqual([2, ""]);
  expect(strict.err.match(/^error: /gm)).toHaveLength(5);
  const github = await at.run([...args, "-o", "github"]);
  expect(github.out).toMatch(/^::warning file=s\.yaml,line=10,col=21,title=Provider "antropic" is not/);
  const json = JSON.parse((await at.run([...args, "-o", "json"])).out);
  expect([json.valid, json.problems.length, json.warnings.length]).toEqual([true, 0, 5]);
});

test("the references are those that the controllers know", () => {
  const { documents, problems } = readManifests([{ name: "s.yaml", text: STACK, vars: {}, files: {} }]);
  expect([problems, documents.length]).toEqual([[], 3]);
  for (const document of documents) {
    if (document.ref === undefined) throw new Error("no object");
    const { kind, namespace, name } = document.ref;
    const object = normalise(kind, document.value) as { metadata: object };
    const wanted = kinds.find((each) => each.kind === kind)?.needs({ ...object, metadata: { ...object.metadata, namespace } });
    expect(needsOf({ kind, metadata: { name, namespace }, document })).toEqual(wanted);
  }
});
