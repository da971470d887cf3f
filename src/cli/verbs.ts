// The table of verbs: parsing, help, completion and the documentation all read it. Each verb's code is loaded when it runs.
import type { Verb } from "./flags.ts";
import { CHANGE } from "./table/change.ts";
import { EGRESS } from "./table/egress.ts";
import { LOOK } from "./table/look.ts";
import { MANAGE } from "./table/manage.ts";
import { MORE } from "./table/more.ts";
import { START } from "./table/start.ts";
import { STEER } from "./table/steer.ts";
import { SNAPSHOTS } from "./table/snapshots.ts";
import { SESSIONS } from "./table/sessions.ts";
import { TALK } from "./table/talk.ts";

/** Asked by the completion scripts; not shown. */
const HIDDEN: Verb = {
  name: "__complete",
  summary: "words for a shell",
  args: "-- WORD...",
  takes: [0, 0],
  rest: true,
  flags: [],
  examples: [],
  load: async () => (await import("./verbs/completion.ts")).complete,
};

export const verbs: readonly Verb[] = [
  ...START,
  ...CHANGE,
  ...LOOK,
  ...EGRESS,
  ...STEER,
  ...MANAGE,
  ...TALK,
  ...SESSIONS,
  ...SNAPSHOTS,
  ...MORE,
  HIDDEN,
];
