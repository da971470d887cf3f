// Single objects that a verb reads and writes by name.
import type { Resource } from "../core/resource.ts";
import { BeigeError } from "../core/errors.ts";
import { type Context, type Input, word } from "./flags.ts";
import { pathOf, type Target, targetsOf } from "./names.ts";

export interface Named extends Target {
  readonly name: string;
}

/** Objects by name: a kind alone is refused. */
export async function namedTargets(
  context: Context,
  args: readonly string[],
  of: { readonly input: Input; readonly verb: string },
): Promise<readonly Named[]> {
  if (args.length === 0) throw new BeigeError("invalid", `${of.verb} needs an object`, { hint: `beige ${of.verb} agent/NAME` });
  const targets = await targetsOf(context.client, args, word(of.input, "namespace"));
  return targets.map((target) => {
    if (target.name !== undefined) return { ...target, name: target.name };
    throw new BeigeError("invalid", `${of.verb} needs names: ${target.kind.kind.toLowerCase()}/NAME`, {
      hint: `beige get ${target.kind.plural} -o name`,
    });
  });
}

/** Undefined for what is not there. */
export async function find(context: Context, path: string): Promise<Resource | undefined> {
  try {
    return await context.client.get<Resource>({ path });
  } catch (error) {
    if (error instanceof BeigeError && error.code === "not_found") return undefined;
    throw error;
  }
}

export interface Write {
  readonly method: "PUT" | "PATCH";
  /** Who owns the fields from now on. */
  readonly manager: string;
  readonly body: unknown;
  readonly type?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

export function write(context: Context, target: Target, { method, manager, body, type, dryRun, force }: Write): Promise<Resource> {
  const query = new URLSearchParams({
    fieldManager: manager,
    ...(dryRun === true && { dryRun: "All" }),
    ...(force === true && { force: "true" }),
  });
  return context.client.get<Resource>({ method, path: `${pathOf(target)}?${query.toString()}`, body, ...(type !== undefined && { type }) });
}

/** Whether a write left everything as it was. */
export const untouched = (before: Resource, after: Resource): boolean => before.metadata.resourceVersion === after.metadata.resourceVersion;
