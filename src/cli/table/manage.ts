// Verbs for single objects over time: what they may say, what they were, what they are to be.
import type { Verb } from "../flags.ts";
import { forceConflicts, namespace, output, timeout } from "./flags.ts";

export const MANAGE: readonly Verb[] = [
  {
    name: "rollout status",
    summary: "wait until the newest spec runs",
    args: "KIND/NAME",
    takes: [1, 2],
    flags: [namespace, { name: "no-wait", summary: "only say how it is" }, timeout("5m", "how long")],
    examples: [["beige rollout status agent/travel", ""]],
    exits: "0 it runs  1 it failed or was not waited for  6 the time passed",
    load: async () => (await import("../verbs/rollout.ts")).status,
  },
  {
    name: "rollout history",
    summary: "the last ten specs of an object",
    args: "KIND/NAME",
    takes: [1, 2],
    flags: [namespace, { name: "revision", value: "N", summary: "the spec of this one" }, output("text", "json")],
    examples: [["beige rollout history agent/travel --revision 3", ""]],
    load: async () => (await import("../verbs/rollout.ts")).history,
  },
  {
    name: "rollout undo",
    summary: "write an older spec as the newest one",
    args: "KIND/NAME",
    takes: [1, 2],
    flags: [
      namespace,
      { name: "to-revision", value: "N", summary: "this one (the one before)" },
      { name: "dry-run", summary: "say what would be, change nothing" },
      { ...forceConflicts, summary: "take fields that a source owns" },
    ],
    examples: [["beige rollout undo agent/travel --to-revision 3", ""]],
    exits: "0 done  1 no such revision  2 not valid any more  3 conflict",
    load: async () => (await import("../verbs/rollout.ts")).undo,
  },
  ...["rollout restart", "restart"].map(
    (name): Verb => ({
      name,
      summary: "a new sandbox for an agent, sessions kept; a plugin is loaded again",
      args: "KIND/NAME...",
      takes: [1, Infinity],
      flags: [namespace],
      examples: [[`beige ${name} agent/travel`, "as its update strategy says: running calls end first"]],
      load: async () => (await import("../verbs/rollout.ts")).restart,
    }),
  ),
];
