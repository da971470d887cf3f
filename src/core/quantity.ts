// Kubernetes quantities: 1000m is 1, 1G is 1000000000. Exact: no floating point on the way.

const SUFFIX: Readonly<Record<string, readonly [bigint, bigint]>> = {
  "": [1n, 1n],
  m: [1n, 1000n],
  k: [1000n, 1n],
  K: [1000n, 1n],
  M: [1000n ** 2n, 1n],
  G: [1000n ** 3n, 1n],
  T: [1000n ** 4n, 1n],
  Ki: [1024n, 1n],
  Mi: [1024n ** 2n, 1n],
  Gi: [1024n ** 3n, 1n],
  Ti: [1024n ** 4n, 1n],
};
const QUANTITY = /^([0-9]{1,18})(?:\.([0-9]{1,9}))?(m|k|K|M|G|T|Ki|Mi|Gi|Ti)?$/;

/** In thousandths, rounded up as Kubernetes does; undefined when it is no quantity. */
export function parseMilli(value: unknown): bigint | undefined {
  if (typeof value === "number") return parseMilli(plain(value));
  if (typeof value !== "string") return undefined;
  const match = QUANTITY.exec(value);
  const scale = SUFFIX[match?.[3] ?? ""];
  if (match?.[1] === undefined || scale === undefined) return undefined;
  const fraction = match[2] ?? "";
  const digits = BigInt(match[1] + fraction) * scale[0] * 1000n;
  const divisor = scale[1] * 10n ** BigInt(fraction.length);
  return (digits + divisor - 1n) / divisor;
}

const plain = (value: number): string | undefined =>
  Number.isFinite(value) && value >= 0 ? (Number.isInteger(value) ? value.toFixed(0) : value.toFixed(9).replace(/0+$/, "")) : undefined;

/** Whole bytes of "3Gi", "1.5G", 1000000; undefined when it is no quantity. Rounds up. */
export function parseBytes(value: string | number): number | undefined {
  const milli = parseMilli(value);
  return milli === undefined ? undefined : Number((milli + 999n) / 1000n);
}

/** Cores of "1000m", "1", 0.5; undefined when it is no quantity. */
export function parseCores(value: string | number): number | undefined {
  const milli = parseMilli(value);
  return milli === undefined ? undefined : Number(milli) / 1000;
}

/** One value for all spellings: a number of bytes or of cores; the value itself when it is no quantity. */
export function canonicalQuantity(unit: "bytes" | "cores", value: unknown): unknown {
  if (typeof value !== "string" && typeof value !== "number") return value;
  return (unit === "bytes" ? parseBytes(value) : parseCores(value)) ?? value;
}

export const sameQuantity = (a: unknown, b: unknown): boolean => {
  const left = parseMilli(a);
  return left !== undefined && left === parseMilli(b);
};

/** Bytes as people write them: the largest binary unit that divides them. */
export function showBytes(bytes: number): string {
  for (const [suffix, size] of [
    ["Ti", 1024 ** 4],
    ["Gi", 1024 ** 3],
    ["Mi", 1024 ** 2],
    ["Ki", 1024],
  ] as const)
    if (bytes > 0 && bytes % size === 0) return `${String(bytes / size)}${suffix}`;
  return String(bytes);
}
