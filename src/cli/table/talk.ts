// Verbs that talk to agents and run commands in their sandboxes.
import type { Verb } from "../flags.ts";
import { namespace, output, timeout } from "./flags.ts";

export const TALK: readonly Verb[] = [
  {
    name: "prompt",
    summary: "send a message to an agent and see its answer",
    args: "AGENT [TEXT | -]",
    takes: [1, Infinity],
    flags: [
      { name: "session", short: "s", value: "KEY", summary: "conversation to go on with (cli:default)" },
      { name: "new", summary: "start the conversation anew" },
      { name: "image", value: "FILE", many: true, summary: "show it with the text; png, jpeg, gif or webp" },
      namespace,
      timeout("1h", "longest silence"),
      { ...output("text", "json"), summary: "text; json: every event, one a line" },
    ],
    examples: [
      ['beige prompt travel "What is on today?"', ""],
      ["git diff | beige prompt reviewer", "the text from a pipe"],
    ],
    load: async () => (await import("../verbs/prompt.ts")).run,
  },
  {
    name: "tui",
    summary: "talk to an agent in the terminal",
    args: "[AGENT]",
    takes: [0, 1],
    flags: [
      { name: "agent", value: "AGENT", summary: "the same as AGENT" },
      { name: "session", short: "s", value: "KEY", summary: "conversation to go on with (the newest of this verb)" },
      { name: "new", summary: "start a new conversation" },
      { name: "verbose", short: "v", summary: "show tools with all they say" },
      namespace,
    ],
    examples: [
      ["beige tui travel", ""],
      ["beige tui travel --session telegram:42", "go on with what was said elsewhere"],
    ],
    load: async () => (await import("../verbs/tui.ts")).run,
  },
  {
    name: "exec",
    summary: "run a command in an agent's sandbox",
    args: "AGENT -- COMMAND [ARG...]",
    takes: [1, 1],
    rest: true,
    flags: [
      { name: "stdin", short: "i", summary: "pass on standard input" },
      { name: "tty", short: "t", summary: "with a terminal of its own, which is this one" },
      namespace,
      { name: "cwd", value: "DIR", summary: "folder in the sandbox (/workspace)" },
      timeout("120s; 1h with -i", "then the whole process tree is ended"),
      output("text", "json"),
    ],
    examples: [
      ["beige exec travel -- ls -l", ""],
      ["beige exec -it travel -- sh", "a shell in the sandbox"],
      ["tar c src | beige exec -i travel -- tar x", ""],
      ["beige exec travel -- 'ls | wc -l'", "one word is a shell line"],
    ],
    exits: "the command's own code",
    load: async () => (await import("../verbs/exec.ts")).run,
  },
];
