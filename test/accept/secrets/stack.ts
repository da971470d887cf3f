// Where the values are planted: a home, a foreign plugin and a stack that use them all.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Values } from "./values.ts";

/** Says its secrets in every way that a careless plugin could. */
const PLUGIN = `
import { existsSync } from "node:fs";
export const createPlugin = async (context) => {
  const all = {};
  for (const key of ["token", "file", "env", "argv", "hook"]) all[key] = await context.secret(key);
  const values = Object.values(all);
  const text = values.join(" ");
  console.log("printed " + text);
  console.error("printed to stderr " + JSON.stringify(all));
  context.log("logged " + text, { text, json: JSON.stringify(all) });
  const near = (length) => "x".repeat(Math.max(0, length - 30)) + values[0];
  if (existsSync(new URL("explode", import.meta.url))) throw new Error("cannot start with " + text + near(1024));
  const refuse = async (text) => { if (text.includes("boom")) throw new Error("guard has no use for " + all.hook + " " + JSON.stringify(all)); };
  const run = async (input) => {
    switch (input.args[0]) {
      case "say": return { output: text + "\\n" + JSON.stringify(all) + "\\n" };
      case "bytes": return { output: Buffer.from(text) };
      case "base64": return { output: values.map((v) => Buffer.from(v).toString("base64") + " " + Buffer.from("ab" + v).toString("base64url")).join("\\n") };
      case "hex": return { output: values.map((v) => Buffer.from(v).toString("hex")).join("\\n") };
      case "fail": throw new Error("cannot sign in with " + text);
      case "long": throw new Error(near(Number(input.args[1] ?? 2048)) + text);
      case "stderr": return { output: "", exitCode: 3, error: "refused: " + text };
      case "die": console.error(near(512) + text); process.exit(3); break;
      case "log": context.log(near(Number(input.args[1] ?? 4096)), { near: near(4096) }); return { output: "" };
      default: return { output: "got " + input.args.join(" ") };
    }
  };
  return {
    async register(registrar) {
      registrar.tool({ name: "vault", description: "Says secrets.", run });
      registrar.hooks({
        preToolCall: async (input) => { await refuse(input.args.join(" ")); },
        postToolCall: async (input) => { if (input.args.includes("say")) throw new Error("observer: " + text); },
        prePrompt: async (input) => { await refuse(input.text); },
      });
    },
  };
};
`;

const MANIFEST = {
  name: "leaky",
  description: "Says its secrets.",
  provides: { tools: ["vault"], hooks: ["preToolCall", "postToolCall", "prePrompt"] },
};

/** Variables and secrets of the host. */
export function plantHost(home: string, folder: string, values: Values): void {
  const host = {
    secrets: [
      { name: "token", env: "PLANT_TOKEN" },
      { name: "file", file: join(folder, "secret") },
      { name: "hook", env: "PLANT_HOOK" },
      { name: "argv", env: "PLANT_ARGV" },
      { name: "key", env: "PLANT_KEY", hosts: ["127.0.0.1"] },
      { name: "bad", env: "PLANT_BAD", hosts: ["127.0.0.1"] },
    ],
    paths: { plugins: [folder], workspaces: [], mounts: [] },
  };
  const env = {
    PLANT_TOKEN: values.pluginSecret,
    PLANT_HOOK: values.hookError,
    PLANT_ARGV: values.argv,
    PLANT_KEY: values.providerKey,
    PLANT_BAD: values.refusal,
    PLANT_ENV: values.envFile,
  };
  writeFileSync(join(home, "host.yaml"), JSON.stringify(host), { mode: 0o600 });
  writeFileSync(
    join(home, "env"),
    Object.entries(env)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(""),
    { mode: 0o600 },
  );
  writeFileSync(join(folder, "secret"), `${values.hostFile}\n`, { mode: 0o600 });
  mkdirSync(join(folder, "leaky"));
  writeFileSync(join(folder, "leaky/plugin.json"), JSON.stringify(MANIFEST));
  writeFileSync(join(folder, "leaky/index.js"), PLUGIN);
}

const agentText = (name: string, provider: string, instructions: string): string => `
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: ${provider}, id: m}
  instructions: "You are ${name}. ${instructions}"
  tools: [vault, memory]
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

export interface Addresses {
  readonly origin: string;
  readonly folder: string;
}

export const stackText = ({ origin, folder }: Addresses, values: Values): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: good}
spec:
  api: openai-completions
  baseUrl: ${origin}/${values.baseUrl}/v1
  apiKey: {secret: key}
  models: [{id: m}]
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: bad}
spec:
  api: openai-completions
  baseUrl: ${origin}/bad/v1
  apiKey: {secret: bad}
  models: [{id: m}]
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: leaky}
spec:
  source: {path: "${folder}/leaky"}
  secrets: {token: {secret: token}, file: {secret: file}, env: {env: PLANT_ENV}, argv: {secret: argv}, hook: {secret: hook}}
${agentText("alice", "good", values.instructions)}
${agentText("mallory", "bad", "Nothing else.")}
`;
