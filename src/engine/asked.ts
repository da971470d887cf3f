// What hangs on who asks: variables of the gateway are the operator's at the unix socket, and every change is on the record with its author.
import { isDeepStrictEqual } from "node:util";
import type { By } from "../core/who.ts";
import { principalName } from "../core/who.ts";
import type { Problem } from "../core/errors.ts";
import { nsName, refName, refOf, type Ref, type Resource } from "../core/resource.ts";
import { variablesIn } from "../core/sourcepolicy.ts";
import type { World } from "../core/world.ts";
import type { PlannedSet } from "./apply/set.ts";
import type { Language } from "./language.ts";

/**
 * {env: NAME} lends the gateway's environment to the object, bound to wherever the object sends it: from any other door
 * than the operator's socket an object that has one may neither come to be nor be changed.
 */
export function variableProblems(language: Language, by: By | undefined, { before, after }: Changed): readonly Problem[] {
  if (by?.door === "socket" && by.principal.kind === "operator") return [];
  if (before !== undefined && isDeepStrictEqual(before.spec, after.spec)) return [];
  const { kind, metadata } = after;
  return variablesIn(after, language.schemas.get(kind)).map(({ path, name }) => ({
    message: `{env: ${name}} is for the operator at the unix socket only`,
    path,
    object: `${kind}/${metadata.name}`,
    hint: `beige apply on the gateway's machine, or beige secret set NAME --env ${name} --host HOST there, and {secret: NAME} here`,
  }));
}

interface Changed {
  readonly before?: Resource | undefined;
  readonly after: Resource;
}

export interface Deed {
  readonly verb: "create" | "update" | "delete" | "apply";
  readonly refs: readonly Ref[];
  readonly manager?: string;
  /** Set, source, or what else tells it from others. */
  readonly what?: string;
}

const shortName = (ref: Ref): string => (ref.kind === "Agent" ? nsName(ref.namespace, ref.name) : refName(ref));

/** Resolves when the row is on the disk: whoever is answered is on the record. Throws `unavailable`. */
export async function recordDeed(world: Pick<World, "control" | "random">, by: By | undefined, deed: Deed): Promise<void> {
  const [first] = deed.refs;
  await world.control.note(world.random.uuid(), {
    agent: deed.refs.length === 1 && first !== undefined ? shortName(first) : "",
    type: "control",
    tool: deed.verb,
    args: [...(deed.what === undefined ? [] : [deed.what]), ...deed.refs.map(refName)],
    decision: "allowed",
    target: "engine",
    ...(by === undefined
      ? {}
      : { principal: principalName(by.principal), door: by.door, ...(by.request === undefined ? {} : { request: by.request }) }),
    ...(deed.manager === undefined ? {} : { manager: deed.manager }),
  });
}

/** What a set changes: what is written, and what goes. */
export const deedsOf = (set: Pick<PlannedSet, "stage" | "pruned">): readonly Ref[] => [
  ...set.stage.staged.flatMap(({ changed, ref }) => (changed ? [ref] : [])),
  ...set.pruned.remove.map(refOf),
];
