// Verbs to begin with: a first stack, the gateway, a look at the machine.
import type { Verb } from "../flags.ts";
import { kubeListen, listen, logFlags, output, schedules, timeout } from "./flags.ts";

export const START: readonly Verb[] = [
  {
    name: "init",
    summary: "write a first stack for this machine",
    args: "[NAME]",
    takes: [0, 1],
    flags: [{ name: "dir", value: "DIR", summary: "folder to write to (this one)" }],
    examples: [
      ["beige init", "stack.yaml with an agent named assistant"],
      ["beige init travel --dir stacks", "stacks/travel.yaml with an agent named travel"],
    ],
    load: async () => (await import("../verbs/init.ts")).run,
  },
  {
    name: "up",
    summary: "run the gateway in the foreground; schedules fire",
    args: "",
    takes: [0, 0],
    flags: [listen, kubeListen, { name: "no-schedules", summary: "schedules do not fire" }],
    examples: [["beige up", "Ctrl-C stops it; sandboxes stay"]],
    load: async () => (await import("../verbs/gateway.ts")).up,
  },
  {
    name: "gateway start",
    summary: "start the gateway in the background",
    args: "",
    takes: [0, 0],
    flags: [schedules, listen, kubeListen, timeout("60s", "how long to wait until it answers")],
    examples: [["beige gateway start --schedules", "schedules fire too"]],
    load: async () => (await import("../verbs/gateway.ts")).start,
  },
  {
    name: "gateway stop",
    summary: "stop it; sandboxes stay",
    args: "",
    takes: [0, 0],
    flags: [timeout("30s", "how long to wait for its end")],
    examples: [["beige gateway stop", ""]],
    load: async () => (await import("../verbs/gateway.ts")).stop,
  },
  {
    name: "gateway restart",
    summary: "stop and start it; sandboxes and sessions stay",
    args: "",
    takes: [0, 0],
    flags: [schedules, listen, kubeListen, timeout("60s", "how long to wait until it answers")],
    examples: [["beige gateway restart --schedules", ""]],
    load: async () => (await import("../verbs/gateway.ts")).restart,
  },
  {
    name: "gateway status",
    summary: "whether it runs, and how it is",
    args: "",
    takes: [0, 0],
    flags: [output("text", "json")],
    examples: [["beige gateway status -o json", ""]],
    exits: "0 it answers  5 it does not",
    load: async () => (await import("../verbs/gateway.ts")).status,
  },
  {
    name: "gateway logs",
    summary: "its log",
    args: "[KIND/NAME]",
    takes: [0, 1],
    flags: logFlags(),
    examples: [["beige gateway logs -f", "goes on"]],
    load: async () => (await import("../verbs/logs.ts")).run,
  },
  {
    name: "doctor",
    summary: "is this machine fit to run agents, and what mends it",
    args: "",
    takes: [0, 0],
    flags: [
      { name: "sandbox", value: "AGENT", summary: "hold the rules of containment against this agent's sandbox" },
      output("text", "json"),
    ],
    examples: [
      ["beige doctor", ""],
      ["beige doctor --sandbox travel", "CIS section 5, and what this host cannot give"],
    ],
    exits: "0 no problem  1 a problem",
    load: async () => (await import("../verbs/doctor.ts")).run,
  },
];
