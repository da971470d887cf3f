// Secrets, schemas, completion, version and help.
import type { Verb } from "../flags.ts";
import { output } from "./flags.ts";

export const MORE: readonly Verb[] = [
  {
    name: "secret set",
    summary: "keep a secret and bind it to hosts; the value comes from standard input",
    args: "NAME",
    takes: [1, 1],
    flags: [
      { name: "host", value: "HOST", many: true, summary: "may be sent to: NAME, NAME:PORT or *.NAME" },
      { name: "env", value: "VAR", summary: "the value is this variable of the gateway" },
      { name: "file", value: "PATH", summary: "the value is the first line of this file" },
    ],
    examples: [['printf %s "$KEY" | beige secret set openai --host api.openai.com', ""]],
    load: async () => (await import("../verbs/secret.ts")).set,
  },
  {
    name: "secret list",
    summary: "names, sources and hosts; never values",
    args: "",
    takes: [0, 0],
    flags: [output("text", "json")],
    examples: [["beige secret list", ""]],
    load: async () => (await import("../verbs/secret.ts")).list,
  },
  {
    name: "secret rm",
    summary: "forget a secret and its value",
    args: "NAME",
    takes: [1, 1],
    flags: [],
    examples: [["beige secret rm openai", ""]],
    load: async () => (await import("../verbs/secret.ts")).remove,
  },
  {
    name: "kubeconfig",
    summary: "a configuration for kubectl; it holds the gateway's token",
    args: "",
    takes: [0, 0],
    flags: [
      { name: "namespace", short: "n", value: "NS", summary: "namespace of the context (default)" },
      { name: "context", value: "NAME", summary: "name of the context (beige)" },
    ],
    examples: [["beige kubeconfig > ~/.beige/kubeconfig && export KUBECONFIG=~/.beige/kubeconfig", ""]],
    exits: "0 printed  5 no gateway, or none with a port for kubectl",
    load: async () => (await import("../verbs/kubeconfig.ts")).run,
  },
  {
    name: "schema",
    summary: "the JSON Schema of a kind, or of every document",
    args: "[KIND]",
    takes: [0, 1],
    flags: [{ name: "path", summary: "print where the file is" }],
    examples: [
      ["beige schema agent", ""],
      ["beige schema --path", "for an editor's settings"],
    ],
    load: async () => (await import("../verbs/schema.ts")).run,
  },
  {
    name: "completion",
    summary: "completion for a shell: bash, zsh, fish",
    args: "SHELL",
    takes: [1, 1],
    flags: [],
    examples: [["source <(beige completion bash)", ""]],
    load: async () => (await import("../verbs/completion.ts")).script,
  },
  {
    name: "version",
    summary: "of this program, and of the gateway",
    args: "",
    takes: [0, 0],
    flags: [{ name: "gateway", summary: "ask the gateway too" }, output("text", "json")],
    examples: [["beige version --gateway", ""]],
    load: async () => (await import("../verbs/version.ts")).run,
  },
  {
    name: "help",
    summary: "this, a verb, or a topic: exit-codes",
    args: "[VERB | TOPIC]",
    takes: [0, 2],
    flags: [{ name: "json", summary: "everything, for programs" }],
    examples: [
      ["beige help exit-codes", ""],
      ["beige help apply", ""],
    ],
    load: async () => (await import("../verbs/help.ts")).run,
  },
];
