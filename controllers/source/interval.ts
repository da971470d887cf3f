// Durations as a Source writes them.

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000 } as const;
const DAY_MS = 86_400_000;

/** `30s`, `5m`, `1h` in milliseconds, at most a day; what the schema let through but is none is 30 s. */
export function intervalMs(text: string): number {
  const found = /^([1-9][0-9]{0,4})([smh])$/.exec(text);
  return found === null ? 30_000 : Math.min(DAY_MS, Number(found[1]) * UNIT_MS[found[2] as keyof typeof UNIT_MS]);
}
