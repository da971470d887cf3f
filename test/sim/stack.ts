// Small manifests of each kind, for the sims.
import type { ManifestFile } from "../../src/core/control.ts";

export const provider = (name = "echo"): object => ({
  apiVersion: "beige.dev/v1",
  kind: "Provider",
  metadata: { name },
  spec: { api: "echo" },
});
export const plugin = (name = "memory", spec: object = {}): object => ({
  apiVersion: "beige.dev/v1",
  kind: "Plugin",
  metadata: { name },
  spec: { source: { builtin: name }, ...spec },
});
export const agent = (name = "travel", spec: { readonly sandbox?: object } & Record<string, unknown> = {}): object => ({
  apiVersion: "beige.dev/v1",
  kind: "Agent",
  metadata: { name },
  spec: { model: { provider: "echo", id: "echo" }, ...spec, sandbox: { image: "beige-base:1", ...spec.sandbox } },
});
export const schedule = (name: string, spec: object): object => ({
  apiVersion: "beige.dev/v1",
  kind: "Schedule",
  metadata: { name },
  spec: { agent: "travel", cron: "0 9 * * *", timeZone: "UTC", input: "go", ...spec },
});

export const stack = (...objects: readonly object[]): ManifestFile => ({
  name: "stack.yaml",
  folder: "/stack",
  text: objects.map((object) => JSON.stringify(object)).join("\n---\n"),
  vars: {},
  files: {},
});
