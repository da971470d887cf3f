// Whose fields a write would take: those of a Source are not taken without force, whatever the kind of write. Pure.
import { decodeFields, showPath } from "./fieldset.ts";
import type { ManagedFields } from "./resource.ts";

export interface Taken {
  readonly manager: string;
  /** Dotted, such as spec.model.id. */
  readonly path: string;
}

/** Managers that keep what is theirs. */
export const SOURCE = "source/";

/** Fields that Sources own before a write and not after it. */
export function takenFromSources(before: readonly ManagedFields[], after: readonly ManagedFields[]): readonly Taken[] {
  return before
    .filter(({ manager, operation }) => operation === "Apply" && manager.startsWith(SOURCE))
    .flatMap(({ manager, fieldsV1 }) => {
      const now = after.find((each) => each.manager === manager && each.operation === "Apply");
      return lostFields(fieldsV1, now?.fieldsV1).map((path) => ({ manager, path }));
    });
}

/** Paths of one FieldsV1 that another one lacks. */
export function lostFields(before: unknown, after: unknown): readonly string[] {
  const kept = decodeFields(after);
  return [...decodeFields(before)].filter(([key]) => !kept.has(key)).map(([, path]) => showPath(path));
}
