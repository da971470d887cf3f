// Who keeps an object as it is: the sources and sets of manifests among the managers of its fields.
import type { Resource } from "../core/resource.ts";

export interface Owner {
  /** source/NAME, or `set NAME` of beige apply. */
  readonly name: string;
  /** Of a Source. */
  readonly source?: string;
}

/** People who edited a field are no owners. */
export function ownersOf(object: Resource): readonly Owner[] {
  const managers = new Set((object.metadata.managedFields ?? []).map(({ manager }) => manager));
  return [...managers].toSorted().flatMap((manager): readonly Owner[] => {
    const [kind, name] = [manager.split("/", 1)[0], manager.slice(manager.indexOf("/") + 1)];
    if (kind === "source") return [{ name: manager, source: name }];
    return kind === "apply" ? [{ name: `set ${name}` }] : [];
  });
}
