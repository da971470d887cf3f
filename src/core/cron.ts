// When a cron expression names a time, by one rule for every zone; the only file that knows croner.
import { Cron } from "croner";
import { BeigeError } from "./errors.ts";
import { instantOf, isZone, nextChange, offsetAt, wallAt, type Wall } from "./zone.ts";

// The rule is ISC cron's. An expression with fixed hours runs on the wall clock: a time that a gap swallows is due once, at
// the end of the gap; a time that the clock shows twice is due the first time only. An expression that runs every hour
// (hour field `*`) follows real time instead, so that a repeated hour has no hole and a skipped one no crowd.

const FIELDS = ["minute", "hour", "day", "month", "weekday"] as const;
const KEPT = 256;
const parsed = new Map<string, Cron>();

/** What is wrong with an expression, undefined when nothing is. */
export function cronProblem(cron: string): string | undefined {
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== FIELDS.length) return `cron '${cron}' has ${fields.length} fields, expected 5: ${FIELDS.join(" ")}`;
  try {
    return patternOf(cron).nextRun(new Date(0)) === null ? `cron '${cron}' never comes` : undefined;
  } catch (error) {
    return `cron '${cron}' is not valid: ${(error as Error).message.replace(/^CronPattern: /, "")}`;
  }
}

export const zoneProblem = (zone: string): string | undefined => (isZone(zone) ? undefined : `time zone '${zone}' is not known`);

function patternOf(cron: string): Cron {
  const known = parsed.get(cron);
  if (known !== undefined) return known;
  const made = new Cron(cron.trim(), { mode: "5-part", timezone: "UTC", paused: true });
  if (parsed.size >= KEPT) parsed.clear();
  parsed.set(cron, made);
  return made;
}

/** The next wall time that the expression names, no wall time is skipped or doubled: the calendar without any zone. */
const nextWall = (cron: string, after: Wall): Wall | undefined => patternOf(cron).nextRun(new Date(after))?.getTime();

const everyHour = (cron: string): boolean => /^(\*(\/1)?|0-23)$/.test(cron.trim().split(/\s+/)[1] ?? "");

/** Pairs that were found good: a plan asks for the same one over and over. */
const good = new Set<string>();

function assertGood(cron: string, zone: string): void {
  const pair = `${cron}\n${zone}`;
  if (good.has(pair)) return;
  const problem = cronProblem(cron) ?? zoneProblem(zone);
  if (problem !== undefined) throw new BeigeError("invalid", problem);
  if (good.size >= KEPT) good.clear();
  good.add(pair);
}

/** The first time strictly after an instant, in milliseconds since the epoch. Throws `invalid`. */
export function nextAfter(cron: string, zone: string, afterMs: number): number {
  assertGood(cron, zone);
  const next = everyHour(cron) ? nextByRealTime(cron, zone, afterMs) : nextByWallClock(cron, zone, afterMs);
  if (next === undefined) throw new BeigeError("invalid", `cron '${cron}' never comes again`);
  return next;
}

function nextByWallClock(cron: string, zone: string, afterMs: number): number | undefined {
  for (let wall = nextWall(cron, wallAt(zone, afterMs)); wall !== undefined; wall = nextWall(cron, wall)) {
    const at = instantOf(zone, wall);
    // Not later: the clock shows this hour again, or the gap that swallowed it has had its one run.
    if (at > afterMs) return at;
  }
  return undefined;
}

/** Walks through stretches of one offset each. */
function nextByRealTime(cron: string, zone: string, afterMs: number): number | undefined {
  let from = afterMs;
  for (;;) {
    const offset = offsetAt(zone, from);
    const wall = nextWall(cron, from + offset);
    if (wall === undefined) return undefined;
    const change = nextChange(zone, from, wall - offset);
    if (change === undefined) return wall - offset;
    // From the last millisecond before the change, so that a time at the change itself counts; that one has the new offset.
    const first = nextWall(cron, change - 1 + offsetAt(zone, change));
    if (first !== undefined && first - offsetAt(zone, change) === change) return change;
    from = change;
  }
}

/** The last time in (afterMs, atMs], undefined when there is none. */
export function lastWithin(cron: string, zone: string, span: { readonly afterMs: number; readonly atMs: number }): number | undefined {
  let low = Math.floor(span.afterMs);
  if (low >= span.atMs || nextAfter(cron, zone, low) > span.atMs) return undefined;
  // Halving finds the last instant that still has a time after it in the span: years cost 40 steps.
  let high = span.atMs;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (nextAfter(cron, zone, middle) <= span.atMs) low = middle;
    else high = middle;
  }
  return nextAfter(cron, zone, low);
}

/** How many times lie in (afterMs, atMs], counted up to `most`. */
export function countWithin(
  cron: string,
  zone: string,
  span: { readonly afterMs: number; readonly atMs: number; readonly most: number },
): number {
  let count = 0;
  for (let at = span.afterMs; count < span.most; count += 1) {
    at = nextAfter(cron, zone, at);
    if (at > span.atMs) break;
  }
  return count;
}
