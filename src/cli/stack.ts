// Sends manifests to the gateway and takes its events, answering what it asks for on the way.
import type { ApplyEnd, ApplyEvent, ManifestFile, PlanBasis, StackPlan } from "../core/control.ts";
import { BeigeError, type Problem } from "../core/errors.ts";
import { answerFiles, collect } from "./manifests.ts";
import { type Context, type Input, on, word, words } from "./flags.ts";
import { milliseconds } from "./duration.ts";

export interface StackOptions {
  readonly set: string;
  readonly dryRun: boolean;
  readonly forceConflicts: boolean;
  readonly prune: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number;
  readonly maxDeletes?: number | string;
  readonly allowEmpty?: boolean;
  readonly detail?: boolean;
  readonly expect?: PlanBasis;
}

/** `14` objects or `30%` of the set. */
function maxDeletes(given: string | undefined): Pick<StackOptions, "maxDeletes"> {
  if (given === undefined) return {};
  if (!/^\d{1,6}$|^\d{1,3}%$/.test(given))
    throw new BeigeError("invalid", `--max-deletes "${given}" is neither a number nor percent`, {
      hint: "--max-deletes 14 or --max-deletes 50%",
    });
  return { maxDeletes: given.endsWith("%") ? given : Number(given) };
}

/** How often the gateway may ask for more files: an answer may name files only once. */
const ROUNDS_MAX = 3;

export const stackOptions = (input: Input, fixed: Partial<StackOptions> = {}): StackOptions => ({
  set: word(input, "set") ?? "default",
  dryRun: on(input, "dry-run"),
  forceConflicts: on(input, "force-conflicts"),
  prune: on(input, "prune"),
  wait: !on(input, "no-wait"),
  timeoutMs: milliseconds(word(input, "timeout") ?? "5m", "--timeout"),
  ...maxDeletes(word(input, "max-deletes")),
  ...(on(input, "allow-empty") && { allowEmpty: true }),
  ...fixed,
});

export const manifestsOf = (context: Context, input: Input): Promise<readonly ManifestFile[]> =>
  collect(context, words(input, "filename"), { deep: on(input, "recursive"), empty: on(input, "allow-empty") });

/** Every event but `needFiles`, which is answered here. */
export async function* sendStack(context: Context, files: readonly ManifestFile[], options: StackOptions): AsyncGenerator<ApplyEvent> {
  let sent = files;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    let asked = false;
    const ask = { path: "/api/apply", body: { files: sent, ...options }, idleMs: options.timeoutMs + 60_000 };
    for await (const event of context.client.stream<ApplyEvent>(ask)) {
      if (event.type !== "needFiles") yield event;
      else {
        sent = answerFiles(sent, event.files);
        asked = true;
        break;
      }
    }
    if (!asked) return;
  }
  throw new BeigeError("unavailable", "the gateway keeps asking for the same files", {
    hint: "beige version; the gateway may be of another version",
  });
}

export interface Planned {
  readonly plan?: StackPlan;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly end: ApplyEnd;
}

/** What the events of a dry run say: the plan, or what is wrong. */
export async function plannedOf(events: AsyncIterable<ApplyEvent>): Promise<Planned> {
  let plan: StackPlan | undefined;
  let end: ApplyEnd | undefined;
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for await (const event of events) {
    if (event.type === "plan") plan = event.plan;
    if (event.type === "problems") problems.push(...event.problems);
    if (event.type === "warnings") warnings.push(...event.problems);
    if (event.type === "end") end = event;
  }
  if (end === undefined) throw cutShort();
  return { problems, warnings, end, ...(plan && { plan }) };
}

/** A dry run. Nothing is changed. */
export const planStack = (context: Context, files: readonly ManifestFile[], options: StackOptions): Promise<Planned> =>
  plannedOf(sendStack(context, files, { ...options, dryRun: true, wait: false }));

export const cutShort = (): BeigeError =>
  new BeigeError("unavailable", "the gateway's answer ended before its end", { hint: "beige gateway status" });
