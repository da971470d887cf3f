// Verbs for copies of an agent's workspace.
import type { Verb } from "../flags.ts";
import { namespace, output, yes } from "./flags.ts";

const of = (verb: "create" | "list" | "diff" | "restore" | "remove") => async () => (await import("../verbs/snapshots.ts"))[verb];

export const SNAPSHOTS: readonly Verb[] = [
  {
    name: "snapshot create",
    summary: "keep the workspace as it is now",
    args: "AGENT",
    takes: [1, 1],
    flags: [namespace, { name: "note", value: "TEXT", summary: "what it is" }, output("text", "json")],
    examples: [['beige snapshot create travel --note "before the tidy-up"', "only what changed since the last one is copied"]],
    load: of("create"),
  },
  {
    name: "snapshot list",
    summary: "snapshots of an agent's workspace, oldest first",
    args: "AGENT",
    takes: [1, 1],
    flags: [namespace, output("text", "json")],
    examples: [["beige snapshot list travel", ""]],
    load: of("list"),
  },
  {
    name: "snapshot diff",
    summary: "what changed since a snapshot, or between two",
    args: "AGENT ID [ID]",
    takes: [2, 3],
    flags: [namespace, output("text", "json")],
    examples: [["beige snapshot diff travel 20261201T001500123-ab12", ""]],
    exits: "0 nothing  1 something",
    load: of("diff"),
  },
  {
    name: "snapshot restore",
    summary: "put the workspace back as it was; what was there is kept first",
    args: "AGENT ID",
    takes: [2, 2],
    flags: [namespace, yes, { name: "stop", summary: "end what the agent does first" }, output("text", "json")],
    examples: [["beige snapshot restore travel 20261201T001500123-ab12", ""]],
    exits: "0 restored  3 the agent is at work",
    load: of("restore"),
  },
  {
    name: "snapshot delete",
    summary: "delete a snapshot",
    args: "AGENT ID",
    takes: [2, 2],
    flags: [namespace, yes],
    examples: [["beige snapshot delete travel 20261201T001500123-ab12", ""]],
    load: of("remove"),
  },
];
