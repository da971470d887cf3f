// Merges an agent's plugin configuration over the plugin's own: objects merge, lists and scalars replace.

type Bag = Readonly<Record<string, unknown>>;

const isBag = (value: unknown): value is Bag => typeof value === "object" && value !== null && !Array.isArray(value);
/** Keys that reach a prototype are data nowhere. */
const HOSTILE = new Set(["__proto__", "constructor", "prototype"]);
const DEPTH_MAX = 32;

function copy(value: unknown, depth: number): unknown {
  if (depth > DEPTH_MAX) return undefined;
  if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1));
  return isBag(value) ? mergeAt({}, value, depth) : value;
}

function mergeAt(base: Bag, over: Bag, depth: number): Bag {
  const merged = new Map<string, unknown>();
  for (const [key, value] of Object.entries(base)) if (!HOSTILE.has(key)) merged.set(key, copy(value, depth + 1));
  for (const [key, value] of Object.entries(over)) {
    if (HOSTILE.has(key)) continue;
    const before = merged.get(key);
    merged.set(key, isBag(before) && isBag(value) && depth < DEPTH_MAX ? mergeAt(before, value, depth + 1) : copy(value, depth + 1));
  }
  return Object.fromEntries(merged);
}

/** A new value that shares nothing with its inputs. */
export const mergeConfig = (base: Bag, over: Bag | undefined): Bag => mergeAt(base, over ?? {}, 0);
