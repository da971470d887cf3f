// The kinds of this gateway as the language sees them: their schemas, needs and checks, and where a problem stands.
import type { ManifestDocument } from "../core/documents.ts";
import type { KindInfo } from "../core/control.ts";
import { BeigeError, type Problem } from "../core/errors.ts";
import type { AnyKind, Need, View } from "../core/kind.ts";
import { refName, type Ref, type Resource } from "../core/resource.ts";
import { schemaSet, type Schemas } from "../core/schema.ts";
import { suggest } from "../core/text.ts";
import { needsOf } from "./needs.ts";

export interface Language {
  readonly kinds: ReadonlyMap<string, AnyKind>;
  readonly schemas: Schemas;
  readonly needs: (object: Resource) => readonly Need[];
  readonly check: (object: Resource, view: View) => readonly Problem[];
  /** Throws `not_found` for a kind that this version does not have. */
  readonly kind: (name: string) => AnyKind;
  readonly infos: () => readonly KindInfo[];
}

export function createLanguage(list: readonly AnyKind[]): Language {
  const kinds = new Map(list.map((kind) => [kind.kind as string, kind]));
  return {
    kinds,
    schemas: schemaSet(list.map((kind) => kind.schema)),
    needs: (object) => needsOf(kinds, object),
    check: (object, view) => kinds.get(object.kind)?.check?.(object, view) ?? [],
    kind(name) {
      const kind = kinds.get(name);
      if (kind !== undefined) return kind;
      throw new BeigeError("not_found", `there is no kind "${name}"`, { hint: suggest(name, [...kinds.keys()], "kinds") });
    },
    infos: () =>
      list.map((kind) => ({
        kind: kind.kind as string,
        plural: kind.plural,
        short: kind.short,
        namespaced: kind.scope === "Namespaced",
        schema: kind.schema,
        columns: kind.columns,
      })),
  };
}

/** A problem with its place, and with the line that it is about where that may be shown. */
export function placed(problem: Problem, document: ManifestDocument | undefined): Problem {
  if (problem.at !== undefined || document === undefined) return problem;
  const at = document.at(problem.path ?? "");
  const line = document.line(at.line);
  return { ...problem, at, ...(line === undefined ? {} : { line }) };
}

export const notFound = (ref: Ref): BeigeError =>
  new BeigeError("not_found", `${refName(ref)} does not exist`, {
    hint: `beige get ${ref.kind.toLowerCase()}s${ref.namespace === "" ? "" : " -A"}`,
  });

export const beingDeleted = (ref: Ref): BeigeError =>
  new BeigeError("conflict", `${refName(ref)} is being deleted`, { hint: `beige wait ${refName(ref)} --for=delete` });
