import { expect, test } from "vitest";
import { SCHEMAS } from "./schema.ts";
import { sourceLimits, sourceProblems } from "./sourcepolicy.ts";
import type { HostPolicy } from "../../schemas/types.ts";

const host: HostPolicy = { secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } };
const provider = { kind: "Provider", spec: { api: "openai-completions", apiKey: { env: "AWS_KEY" } } };
const plugin = {
  kind: "Plugin",
  spec: {
    source: { builtin: "x" },
    secrets: { token: { env: "TOKEN" }, other: { secret: "named" } },
    config: { apiKey: { env: "NO_REFERENCE" } },
  },
};
const found = (value: { readonly kind: string }, sources?: HostPolicy["sources"]) =>
  sourceProblems(value.kind, value, {
    limits: sourceLimits(sources === undefined ? host : { ...host, sources }),
    schema: SCHEMAS.get(value.kind),
  });

test("by default a Source brings agents and schedules, and nothing with the gateway's own power", () => {
  for (const kind of ["Agent", "Schedule"]) expect(found({ kind })).toEqual([]);
  for (const kind of ["Provider", "Plugin", "Source"]) expect(found({ kind }).map(({ path }) => path)).toEqual(["/kind"]);
  expect(found(provider)[0]?.hint).toBe("the operator allows it in host.yaml: sources: {kinds: [Agent, Schedule, Provider]}");
});

test("a variable of the gateway is used only where host policy names it", () => {
  const kinds: NonNullable<HostPolicy["sources"]>["kinds"] = ["Provider", "Plugin"];
  expect(found(provider, { kinds, variables: [] })).toMatchObject([
    { path: "/spec/apiKey/env", message: "a Source may not use the gateway's variable AWS_KEY" },
  ]);
  expect(found(provider, { kinds, variables: ["AWS_KEY"] })).toEqual([]);
  expect(found(plugin, { kinds, variables: [] }).map(({ path }) => path)).toEqual(["/spec/secrets/token/env"]);
});
