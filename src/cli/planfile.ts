// A saved plan: what `diff -o json` prints is what `apply --plan` reads. It says where its manifests are, not what they hold, so that no value of a variable is kept.
import { closeSync, openSync, readSync } from "node:fs";
import type { PlanBasis, StackPlan } from "../core/control.ts";
import { BeigeError } from "../core/errors.ts";
import { type Context, type Input, on, word, words } from "./flags.ts";
import { reasonOf } from "./manifests.ts";
import type { StackOptions } from "./stack.ts";

const MAX_BYTES = 64 * 1024 * 1024;
const HINT = "make one: beige diff -f FILE -o json > plan.json";

/** How the plan was asked for. */
export interface From {
  readonly files: readonly string[];
  readonly recursive: boolean;
  /** Folder that the files' names start from. */
  readonly folder: string;
  readonly set: string;
  readonly prune: boolean;
  readonly forceConflicts: boolean;
  readonly maxDeletes?: number | string;
  readonly allowEmpty?: boolean;
}

export const savedPlan = (context: Context, input: Input, made: { readonly plan: StackPlan; readonly options: StackOptions }): string => {
  const { set, prune, forceConflicts, maxDeletes, allowEmpty } = made.options;
  const from: From = {
    files: words(input, "filename"),
    recursive: on(input, "recursive"),
    folder: context.cwd,
    set,
    prune,
    forceConflicts,
    ...(maxDeletes !== undefined && { maxDeletes }),
    ...(allowEmpty !== undefined && { allowEmpty }),
  };
  return `${JSON.stringify({ ...made.plan, from }, undefined, 2)}\n`;
};

function readCapped(path: string): string {
  let file;
  try {
    file = openSync(path, "r");
    const parts: Buffer[] = [];
    for (let size = 0; ;) {
      const part = Buffer.alloc(64 * 1024);
      const got = readSync(file, part);
      if (got === 0) return Buffer.concat(parts).toString();
      size += got;
      if (size > MAX_BYTES) throw new BeigeError("invalid", `${path} is longer than ${MAX_BYTES / 1048576} MiB`);
      parts.push(part.subarray(0, got));
    }
  } catch (error) {
    if (error instanceof BeigeError) throw error;
    throw new BeigeError("invalid", `cannot read the plan ${path}: ${reasonOf(error)}`, { cause: error, hint: HINT });
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

const isText = (value: unknown): value is string => typeof value === "string";
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);

function isFrom(value: unknown): value is From {
  if (typeof value !== "object" || value === null) return false;
  const { files, recursive, folder, set, prune, forceConflicts } = value as Partial<From>;
  const switches = [recursive, prune, forceConflicts].every((each) => typeof each === "boolean");
  return isList(files) && files.every(isText) && isText(folder) && isText(set) && switches;
}

const isBasis = (value: unknown): value is PlanBasis =>
  typeof value === "object" &&
  value !== null &&
  isText((value as Partial<PlanBasis>).store) &&
  isList((value as Partial<PlanBasis>).objects);

/** Throws `invalid` for what is no plan that can be carried out. */
export function readPlan(context: Context, path: string): { readonly basis: PlanBasis; readonly from: From } {
  const text = readCapped(path.startsWith("/") ? path : `${context.cwd}/${path}`);
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (error) {
    throw new BeigeError("invalid", `the plan ${path} is not JSON`, { cause: error, hint: HINT });
  }
  const { basis, from, objects } = (typeof read === "object" && read !== null ? read : {}) as Record<string, unknown>;
  if (isBasis(basis) && isFrom(from)) return { basis, from };
  const offline = isList(objects) && isFrom(from);
  throw new BeigeError("invalid", offline ? `the plan ${path} was not made against what runs` : `${path} is not a saved plan`, {
    hint: HINT,
  });
}

/** Flags that a saved plan has said already. */
const SAID = ["set", "prune", "force-conflicts", "max-deletes", "allow-empty", "recursive"] as const;

/** The input and options that a plan was made with; -f says where the same manifests are now. */
export function asPlanned(
  context: Context,
  input: Input,
): { readonly context: Context; readonly input: Input; readonly basis: PlanBasis } | undefined {
  const path = word(input, "plan");
  if (path === undefined) return undefined;
  const twice = SAID.find((name) => input.flags[name] !== undefined);
  if (twice !== undefined) throw new BeigeError("invalid", `--${twice} is said by the plan itself`, { hint: `beige apply --plan ${path}` });
  const { basis, from } = readPlan(context, path);
  const moved = words(input, "filename").length > 0;
  const flags: Input["flags"] = {
    ...input.flags,
    ...(!moved && { filename: from.files }),
    recursive: from.recursive,
    set: from.set,
    prune: from.prune,
    "force-conflicts": from.forceConflicts,
    ...(from.maxDeletes !== undefined && { "max-deletes": String(from.maxDeletes) }),
    "allow-empty": from.allowEmpty === true,
  };
  return { context: moved ? context : { ...context, cwd: from.folder }, input: { ...input, flags }, basis };
}
