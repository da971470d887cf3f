// Refuses writes that would take fields of a Source: what a folder decides is changed there, or by force.
import { BeigeError } from "../core/errors.ts";
import { takenFromSources } from "../core/guard.ts";
import { refName, type ManagedFields, type Ref } from "../core/resource.ts";

/** Throws `conflict` naming the Source and the fields. */
export function refuseTaking(ref: Ref, before: readonly ManagedFields[], after: readonly ManagedFields[]): void {
  const taken = takenFromSources(before, after);
  const [first] = taken;
  if (first === undefined) return;
  const problems = taken.map(({ manager, path }) => ({
    message: `conflict with "${manager}" using beige.dev/v1`,
    path: `/${path.replaceAll(".", "/")}`,
    object: `${ref.kind}/${ref.name}`,
  }));
  const shown = taken.slice(0, 10).map(({ manager, path }) => `${path} is owned by ${manager}`);
  const more = taken.length > 10 ? `; and ${taken.length - 10} more` : "";
  throw new BeigeError("conflict", `${refName(ref)}: ${shown.join("; ")}${more}`, {
    problems,
    hint: `change it in the folder of ${first.manager}, or suspend that source and force the write`,
  });
}
