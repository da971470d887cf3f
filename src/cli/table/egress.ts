// Verbs about the way out of the sandboxes.
import type { Verb } from "../flags.ts";
import { output } from "./flags.ts";

export const EGRESS: readonly Verb[] = [
  {
    name: "egress log",
    summary: "where an agent's sandbox went, and what it was refused",
    args: "AGENT",
    takes: [1, 1],
    flags: [
      { name: "lines", short: "n", value: "N", summary: "last N connections (20)" },
      { name: "denied", summary: "refused ones only" },
      output("text", "json"),
    ],
    examples: [["beige egress log travel --denied", ""]],
    load: async () => (await import("../verbs/egress.ts")).log,
  },
  {
    name: "egress test",
    summary: "whether an agent's sandbox may go to a host, and the line that would allow it",
    args: "AGENT HOST[:PORT]",
    takes: [2, 2],
    flags: [output("text", "json")],
    examples: [["beige egress test travel api.example.com:443", "the name is resolved, nothing is connected"]],
    exits: "0 allowed  1 refused",
    load: async () => (await import("../verbs/egress.ts")).test,
  },
];
