// Verbs for what goes on by itself: is all well, look now, rest, go on.
import type { Verb } from "../flags.ts";
import { namespace, output, timeout } from "./flags.ts";

export const STEER: readonly Verb[] = [
  {
    name: "status",
    summary: "what is not well, a line each; sources first",
    args: "",
    takes: [0, 0],
    flags: [output("text", "json")],
    examples: [["beige status", ""]],
    exits: "0 all ready  1 something is not",
    load: async () => (await import("../verbs/status.ts")).run,
  },
  {
    name: "reconcile",
    summary: "look at objects now; a source reads its folder",
    args: "KIND/NAME...",
    takes: [1, Infinity],
    flags: [
      namespace,
      { name: "force-conflicts", summary: "a source takes fields that others own, once" },
      { name: "no-wait", summary: "do not wait for a source's answer" },
      timeout("60s", "how long to wait for a source"),
    ],
    examples: [["beige reconcile source/stacks", ""]],
    exits: "0 done  1 not ready afterwards  6 not looked at in time",
    load: async () => (await import("../verbs/steer.ts")).reconcile,
  },
  {
    name: "suspend",
    summary: "let an agent, schedule or source rest",
    args: "KIND/NAME...",
    takes: [1, Infinity],
    flags: [namespace],
    examples: [["beige suspend source/stacks", "its objects stay as they are"]],
    load: async () => (await import("../verbs/steer.ts")).suspend,
  },
  {
    name: "resume",
    summary: "let it go on",
    args: "KIND/NAME...",
    takes: [1, Infinity],
    flags: [namespace],
    examples: [["beige resume source/stacks", ""]],
    load: async () => (await import("../verbs/steer.ts")).resume,
  },
];
