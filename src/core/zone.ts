// Time zones: what a wall clock shows at an instant, and at which instant it shows a time. Pure: the tables come with Node.

/** A wall clock's reading, kept as the milliseconds that the same reading would be in UTC. */
export type Wall = number;

const DAY_MS = 86_400_000;
const ZONES_KEPT = 256;
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    era: "short",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  if (formats.size >= ZONES_KEPT) formats.clear();
  formats.set(zone, made);
  return made;
}

/** Whether the zone is one that this machine knows. */
export function isZone(zone: string): boolean {
  // Offsets such as +02:00 are taken by Intl, but say nothing about summer time: a zone has a name.
  if (/^[+-]/.test(zone)) return false;
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** The host's own zone. */
export const hostZone = (): string => new Intl.DateTimeFormat("en-US").resolvedOptions().timeZone;

export function wallAt(zone: string, atMs: number): Wall {
  const part: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(atMs)) part[type] = Number(value);
  const whole = Date.UTC(part["year"] ?? 0, (part["month"] ?? 1) - 1, part["day"], part["hour"], part["minute"], part["second"]);
  return whole + (((atMs % 1000) + 1000) % 1000);
}

/** Milliseconds that the zone's clocks are ahead of UTC at an instant. */
export const offsetAt = (zone: string, atMs: number): number => wallAt(zone, atMs) - atMs;

/** The first instant in (fromMs, toMs] with another offset than at fromMs; both ends must differ. */
function changeBetween(zone: string, fromMs: number, toMs: number): number {
  const before = offsetAt(zone, fromMs);
  let low = fromMs;
  let high = toMs;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(zone, middle) === before) low = middle;
    else high = middle;
  }
  return high;
}

/** The first change of offset after an instant, no later than `toMs`; undefined when there is none. Looks day by day. */
export function nextChange(zone: string, afterMs: number, toMs: number): number | undefined {
  for (let from = afterMs; from < toMs; from += DAY_MS) {
    const to = Math.min(from + DAY_MS, toMs);
    if (offsetAt(zone, from) !== offsetAt(zone, to)) return changeBetween(zone, from, to);
  }
  return undefined;
}

/** When the wall clock shows this: the first time when it does twice, the end of the gap when it never does. */
export function instantOf(zone: string, wall: Wall): number {
  // A day and a half on both sides: wide enough for a zone that skipped a whole day.
  const before = offsetAt(zone, wall - 1.5 * DAY_MS);
  const after = offsetAt(zone, wall + 1.5 * DAY_MS);
  const shown = [wall - before, wall - after].filter((at) => wallAt(zone, at) === wall);
  if (shown.length > 0) return Math.min(...shown);
  const from = wall - Math.max(before, after) - 1;
  return changeBetween(zone, from, wall - Math.min(before, after) + 1);
}

/** RFC 3339 with the zone's offset, in whole seconds: 2026-12-01T09:00:00+01:00. */
export function zonedText(zone: string, atMs: number): string {
  const offsetMinutes = Math.round(offsetAt(zone, atMs) / 60_000);
  const text = new Date(atMs + offsetMinutes * 60_000).toISOString().slice(0, 19);
  if (offsetMinutes === 0) return `${text}Z`;
  const size = Math.abs(offsetMinutes);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${text}${offsetMinutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
