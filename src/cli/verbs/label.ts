// beige label and annotate: sets and removes labels and annotations of objects.
import type { Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Input, on, type Run } from "../flags.ts";
import { pathOf, refOfTarget } from "../names.ts";
import { type Named, namedTargets, untouched, write } from "../objects.ts";
import { oneLine } from "../output.ts";
import { nameOf } from "../render/values.ts";

type What = "labels" | "annotations";
const DONE: Readonly<Record<What, string>> = { labels: "labeled", annotations: "annotated" };
const VERB: Readonly<Record<What, string>> = { labels: "label", annotations: "annotate" };

const isPair = (word: string): boolean => word.includes("=") || (word.endsWith("-") && word.length > 1);
const KEY = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/;

/** `key=value` sets, `key-` removes. */
function pairsOf(words: readonly string[], what: What): ReadonlyMap<string, string | null> {
  const pairs = new Map<string, string | null>();
  for (const word of words) {
    const equals = word.indexOf("=");
    const [key, value] = equals < 0 ? [word.slice(0, -1), null] : [word.slice(0, equals), word.slice(equals + 1)];
    if (!KEY.test(key))
      throw new BeigeError("invalid", `"${oneLine(key)}" is no key for ${what}`, {
        hint: "letters, digits, '-', '_' and '.', perhaps behind a domain and /",
      });
    if (pairs.has(key) && pairs.get(key) !== value) throw new BeigeError("invalid", `"${key}" is said twice`);
    pairs.set(key, value);
  }
  return pairs;
}

/** Throws where a value would be lost that nobody said may be. */
function refuseOverwrite(
  object: Resource,
  what: What,
  of: { readonly pairs: ReadonlyMap<string, string | null>; readonly name: string },
): void {
  const now = object.metadata[what] ?? {};
  const lost = [...of.pairs].find(([key, value]) => value !== null && now[key] !== undefined && now[key] !== value);
  if (lost === undefined) return;
  throw new BeigeError("conflict", `${of.name} has ${lost[0]}=${oneLine(now[lost[0]] ?? "")} already`, { hint: "--overwrite replaces it" });
}

async function list(context: Context, target: Named, what: What): Promise<void> {
  const object = await context.client.get<Resource>({ path: pathOf(target) });
  const rows = Object.entries(object.metadata[what] ?? {}).map(([key, value]) => `${oneLine(key)}=${oneLine(value)}\n`);
  await context.out.write(rows.toSorted().join(""));
}

async function mark(context: Context, input: Input, what: What): Promise<number> {
  const verb = VERB[what];
  const first = input.args.findIndex(isPair);
  const words = first < 0 ? [] : input.args.slice(first);
  const stray = words.find((word) => !isPair(word));
  if (stray !== undefined)
    throw new BeigeError("invalid", `"${oneLine(stray)}" is neither KEY=VALUE nor KEY-`, {
      hint: `beige ${verb} agent/NAME team=ops tier-`,
    });
  const targets = await namedTargets(context, first < 0 ? input.args : input.args.slice(0, first), { input, verb });
  if (words.length === 0 && !on(input, "list"))
    throw new BeigeError("invalid", `no ${what} given`, { hint: `beige ${verb} agent/NAME KEY=VALUE, or --list` });
  const pairs = pairsOf(words, what);
  for (const target of targets) {
    const name = nameOf(refOfTarget(target));
    if (on(input, "list")) await list(context, target, what);
    if (pairs.size === 0) continue;
    const before = await context.client.get<Resource>({ path: pathOf(target) });
    if (!on(input, "overwrite")) refuseOverwrite(before, what, { pairs, name });
    // Of an object without any there is nothing to remove from.
    const metadata = {
      [what]: Object.fromEntries(pairs),
      ...(!on(input, "overwrite") && { resourceVersion: before.metadata.resourceVersion }),
    };
    const after = await write(context, target, {
      method: "PATCH",
      manager: verb,
      body: { metadata },
      dryRun: on(input, "dry-run"),
      force: on(input, "force-conflicts"),
    });
    const same = on(input, "dry-run")
      ? JSON.stringify(before.metadata[what] ?? {}) === JSON.stringify(after.metadata[what] ?? {})
      : untouched(before, after);
    await context.out.write(
      `${name} ${same ? `not ${DONE[what]}: nothing to change` : DONE[what]}${on(input, "dry-run") ? " (dry run)" : ""}\n`,
    );
  }
  return 0;
}

export const label: Run = (context, input) => mark(context, input, "labels");
export const annotate: Run = (context, input) => mark(context, input, "annotations");
