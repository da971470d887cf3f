// How long ago, in the two largest units that kubectl would show.

const UNITS: readonly (readonly [string, number])[] = [
  ["y", 31_536_000],
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** Milliseconds as `42s`, `5m30s`, `5m`, `3h20m`, `2d4h`, `12d`, `2y40d`; negative spans (clocks differ) are `0s`. */
export function age(ms: number): string {
  if (!Number.isFinite(ms)) return "<unknown>";
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${String(seconds)}s`;
  const index = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[index] ?? ["s", 1];
  const whole = Math.floor(seconds / size);
  const next = UNITS[index + 1];
  const rest = next === undefined || whole >= 10 ? 0 : Math.floor((seconds - whole * size) / next[1]);
  return `${String(whole)}${unit}${next !== undefined && rest > 0 ? `${String(rest)}${next[0]}` : ""}`;
}

/** A duration of work: `0.1s`, `8.4s`, `72s`, then as `age`. */
export const took = (ms: number): string => (ms < 60_000 ? `${(Math.max(0, ms) / 1000).toFixed(1)}s` : age(ms));
