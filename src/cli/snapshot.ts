// A snapshot: all objects as people write them, for comparisons without a gateway; redacted on request, so that it can lie in a repository.
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { BeigeError } from "../core/errors.ts";
import { API_VERSION, type Resource } from "../core/resource.ts";
import { looksSecret } from "../core/secretref.ts";
import type { Context } from "./flags.ts";
import { neat } from "./neat.ts";

/** Stands for a value; a manifest that holds it is refused, and a comparison passes it over. */
export const MARK = "[secret]";
const MAX_BYTES = 64 * 1024 * 1024;

export interface SnapshotItem {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: object; readonly annotations?: object };
  readonly spec: unknown;
}
export interface Snapshot {
  readonly apiVersion: string;
  readonly kind: "Snapshot";
  readonly items: readonly SnapshotItem[];
}

/** Free-form values that people put secrets into, whatever the documentation says. */
const FREE = /^(spec\.sandbox\.env|spec\.config|spec\.plugins|spec\.vars|metadata\.annotations)\./;
const NAMED = /(token|secret|passw|passphrase|api_?-?key|credential|authorization|private)/i;
const inText = (text: string): boolean =>
  /-----BEGIN [A-Z ]*PRIVATE KEY|:\/\/[^/\s:@]+:[^/\s@]+@|\bBearer\s+\S{12,}/.test(text) || text.split(/[\s"'=,;()]+/).some(looksSecret);

/** References to secrets are names and stay; everything in the sandbox's environment goes. */
export function redacted(value: unknown, path = ""): unknown {
  if (typeof value === "string") {
    const free = FREE.test(path);
    const hidden = path.startsWith("spec.sandbox.env.") || (free && NAMED.test(path.slice(path.lastIndexOf(".") + 1))) || inText(value);
    return hidden && value !== "" ? MARK : value;
  }
  if (Array.isArray(value)) return value.map((item) => redacted(item, path));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, redacted(item, path === "" ? key : `${path}.${key}`)]));
}

export const snapshotOf = (objects: readonly Resource[], hide: boolean): Snapshot => ({
  apiVersion: API_VERSION,
  kind: "Snapshot",
  items: objects.map((object) => {
    const item = neat(object, { brief: true, escape: false });
    return (hide ? redacted(item) : item) as SnapshotItem;
  }),
});

const isItem = (value: unknown): value is SnapshotItem => {
  const { kind, metadata, spec } = (typeof value === "object" && value !== null ? value : {}) as Partial<SnapshotItem>;
  return (
    typeof kind === "string" &&
    typeof metadata?.name === "string" &&
    (metadata.namespace === undefined || typeof metadata.namespace === "string") &&
    typeof spec === "object" &&
    spec !== null
  );
};

/** Undefined when the file is no snapshot: then it is a manifest. */
export function readSnapshot(context: Context, given: string): Snapshot | undefined {
  const path = resolve(context.cwd, given);
  if (!given.endsWith(".json")) return undefined;
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat?.isFile() !== true) return undefined;
  if (stat.size > MAX_BYTES) throw new BeigeError("invalid", `${given} is longer than ${MAX_BYTES / 1048576} MiB`);
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
  if (typeof read !== "object" || read === null || (read as Partial<Snapshot>).kind !== "Snapshot") return undefined;
  const { items } = read as Partial<Snapshot>;
  if (Array.isArray(items) && items.every(isItem)) return read as Snapshot;
  throw new BeigeError("invalid", `${given} is no whole snapshot`, { hint: "make it anew: beige export -A -o json > snapshot.json" });
}
