// beige init: looks at this machine and writes one commented stack to start from. What is there already is kept.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { createClient } from "../client.ts";
import { type Context, type Run, word } from "../flags.ts";
import { ascii } from "../render/values.ts";
import { command, packageRoot } from "../place.ts";
import { dockerSocket } from "./doctor.ts";

interface Found {
  readonly docker?: string;
  readonly image: string;
  readonly key: boolean;
}

async function look(context: Context): Promise<Found> {
  const client = createClient(dockerSocket(context.env), context.signal);
  const key = Boolean(context.env["OPENAI_API_KEY"]);
  try {
    const { Version } = await client.get<{ Version: string }>({ path: "/version", idleMs: 5_000 });
    const full = await client.ask({ path: "/images/beige-sandbox:latest/json", idleMs: 5_000 });
    full.close();
    return { docker: Version, image: full.status === 200 ? "beige-sandbox:latest" : "beige-base:1", key };
  } catch {
    return { image: "beige-base:1", key };
  }
}

const MODELINE = "# yaml-language-server: $schema=";

const OPENAI = `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: openai}
spec:
  api: openai-completions
  baseUrl: https://api.openai.com/v1
  apiKey: {env: OPENAI_API_KEY}     # names the variable; the value stays in the gateway's environment
  concurrency: 4                    # parallel requests; more wait in order
`;
const ECHO = `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: echo}
spec:
  api: echo                         # built in and offline: answers with what it was told
`;

function stack(name: string, found: Found, schema: string): string {
  const provider = found.key ? OPENAI : ECHO;
  const model = found.key ? "{provider: openai, id: gpt-4o-mini}" : "{provider: echo, id: echo}";
  const head = `${MODELINE}${schema}\n`;
  return `${head}# A stack: one place for models, one agent. Apply it, change it, apply it again; "beige diff" shows what would change.
${provider}---
${head}apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: ${model}
  instructions: |
    You are a helpful assistant. You work in /workspace.
  tools: []                         # of plugins; read, write, patch and exec are there without
  sandbox:
    image: ${found.image}
    network: {mode: none}           # no network but the gateway's own socket
    resources: {memory: 512Mi, cpus: 1}
`;
}

/** Adds our schema to the editor's settings unless the file holds something that we cannot read. */
function editorSettings(folder: string, schema: string, file: string): "wrote" | "kept" {
  const path = join(folder, ".vscode/settings.json");
  let settings: Record<string, unknown> = {};
  if (existsSync(path)) {
    try {
      settings = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
    } catch {
      return "kept";
    }
  }
  const schemas =
    typeof settings["yaml.schemas"] === "object" && settings["yaml.schemas"] !== null
      ? (settings["yaml.schemas"] as Record<string, unknown>)
      : {};
  if (Object.keys(schemas).some((key) => key.endsWith("schemas/beige.json"))) return "kept";
  if (!existsSync(join(folder, ".vscode"))) mkdirSync(join(folder, ".vscode"));
  const files = [...new Set([file, "stack.yaml", "**/*.beige.yaml", "stacks/**/*.yaml"])];
  const next = { ...settings, "yaml.schemas": { ...schemas, [schema]: files } };
  writeFileSync(path, `${JSON.stringify(next, undefined, 2)}\n`);
  return "wrote";
}

export const run: Run = async (context, input) => {
  const name = input.args[0] ?? "assistant";
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name))
    throw new BeigeError("invalid", `"${name}" cannot name an Agent`, { hint: "lower-case letters, digits and '-'" });
  const folder = resolve(context.cwd, word(input, "dir") ?? ".");
  const found = await look(context);
  const own = input.args[0] === undefined ? "stack.yaml" : `${name}.yaml`;
  const file = join(folder, own);
  const schema = join(packageRoot, "schemas/beige.json");
  // Not recursive: below /proc that never ends.
  if (!existsSync(dirname(folder)))
    throw new BeigeError("invalid", `${dirname(folder)} does not exist`, { hint: `mkdir -p ${dirname(folder)}` });
  if (!existsSync(folder)) mkdirSync(folder);
  const kept = existsSync(file);
  if (!kept) writeFileSync(file, stack(name, found, schema), { flag: "wx" });
  const settings = editorSettings(folder, schema, own);
  const rows: (readonly [string, string])[] = [
    ["docker", found.docker === undefined ? "does not answer: beige doctor says how to mend it" : `${found.docker}, reachable`],
    [
      "keys",
      found.key
        ? "OPENAI_API_KEY found in the environment (the file only names it)"
        : "none found: the stack uses the built-in echo provider, which works offline",
    ],
    [kept ? "kept" : "wrote", `${own}${kept ? "" : ` (1 provider, agent ${name})`}`],
    [settings, ".vscode/settings.json (completion in your editor)"],
  ];
  await context.out.write(ascii(context.out, rows.map(([left, right]) => `  ${left.padEnd(10)} ${right}\n`).join("")));
  const shown = join(word(input, "dir") ?? "", own);
  await context.out.write(`next: ${command()} apply -f ${shown}\n`);
  if (found.key && !kept) context.out.note(`a gateway that runs already does not know OPENAI_API_KEY: ${command()} gateway restart`);
  return 0;
};
