// What an object refers to, also one that an older schema let in and whose references are no longer where, or what, they are looked for.
import type { AnyKind, Need } from "../core/kind.ts";
import type { Resource } from "../core/resource.ts";

export function needsOf(kinds: ReadonlyMap<string, AnyKind>, object: Resource): readonly Need[] {
  try {
    const needs = kinds.get(object.kind)?.needs(object) ?? [];
    return needs.filter(({ ref }) => typeof ref.name === "string");
  } catch {
    // Its plan says what is wrong with it; here it would stop everybody else's.
    return [];
  }
}
