// One hash for one meaning: equal values give equal text, whatever the order of their keys.
import { createHash } from "node:crypto";

/** Moves when the hash of an unchanged spec would change: what carries an older version is compared field by field instead. */
export const HASH_VERSION = "1";

/** JSON with sorted keys; undefined members are left out, as JSON does. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`).join(",")}}`;
}

/** SHA-256 of the canonical JSON, as 64 hex digits. */
export const fingerprint = (value: unknown): string => createHash("sha256").update(canonicalJson(value)).digest("hex");
