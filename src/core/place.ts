// Reads, sets and removes what a path of steps points to, in a copy that the caller owns.
import type { Step } from "./fieldset.ts";
import { itemSchema } from "./identity.ts";
import { isObject, member } from "./schema.ts";
import type { Schema } from "./schema.ts";

type Node = Record<string, unknown>;

/** Key and value of `k:{"id":"x"}`. */
function keyOf(step: Step): readonly [string, string] {
  const [entry] = Object.entries(JSON.parse(step.slice(2)) as Record<string, string>);
  return entry ?? ["", ""];
}
const wordOf = (step: Step): unknown => JSON.parse(step.slice(2)) as unknown;

function child(at: unknown, step: Step): unknown {
  if (step.startsWith("f:")) return isObject(at) && Object.hasOwn(at, step.slice(2)) ? at[step.slice(2)] : undefined;
  if (!Array.isArray(at)) return undefined;
  if (step.startsWith("v:")) {
    const word = wordOf(step);
    return (at as unknown[]).find((item) => item === word);
  }
  const [key, id] = keyOf(step);
  return (at as unknown[]).find((item) => isObject(item) && item[key] === id);
}

/** Undefined when there is nothing. */
export const getAt = (root: unknown, path: readonly Step[]): unknown => path.reduce(child, root);

/** Makes what is missing on the way. `undefined` makes an empty item. */
export function setAt(root: Node, path: readonly Step[], value: unknown): void {
  let at: unknown = root;
  for (const [i, step] of path.entries()) {
    const last = i === path.length - 1;
    const next = path[i + 1];
    const made = (): unknown => (next?.startsWith("f:") === false ? [] : {});
    if (step.startsWith("f:")) {
      const node = at as Node;
      const name = step.slice(2);
      if (last) node[name] = value;
      else if (!fits(child(at, step), next)) node[name] = made();
    } else if (child(at, step) === undefined)
      (at as unknown[]).push(step.startsWith("v:") ? wordOf(step) : Object.fromEntries([keyOf(step)]));
    at = child(at, step);
  }
}

const fits = (value: unknown, next: Step | undefined): boolean =>
  next?.startsWith("f:") === true ? isObject(value) : Array.isArray(value);

export function removeAt(root: Node, path: readonly Step[]): void {
  const parent = getAt(root, path.slice(0, -1));
  const step = path.at(-1);
  if (step === undefined || parent === undefined) return;
  if (step.startsWith("f:")) {
    if (isObject(parent)) delete (parent as Node)[step.slice(2)];
    return;
  }
  const item = child(parent, step);
  if (Array.isArray(parent) && item !== undefined) parent.splice(parent.indexOf(item), 1);
}

/** Schema of what a path points to. */
export function schemaOf(schema: Schema | undefined, path: readonly Step[]): Schema | undefined {
  return path.reduce<Schema | undefined>((at, step) => {
    if (at === undefined) return undefined;
    return step.startsWith("f:") ? member(at, step.slice(2)) : itemSchema(at);
  }, schema);
}
