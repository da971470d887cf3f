// ${VAR}, ${VAR:-default} and $$ in one text: one pass, never expanded again.

export type Fault = { readonly offset: number; readonly length: number } & (
  | { readonly kind: "missing"; readonly name: string }
  | { readonly kind: "malformed"; readonly text: string }
);

export interface Substituted {
  readonly text: string;
  readonly names: readonly string[];
  readonly faults: readonly Fault[];
}

const TOKEN = /\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}$]*(?:\$(?!\{)[^}$]*)*))?\}|\$\{[^\s}]{0,64}\}?/g;

/** The name in a text that is one plain ${NAME} and nothing else. */
export const onlyVariable = (text: string): string | undefined => /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/.exec(text)?.[1];

/** Where tokens that are not `$$` stand, in order. */
export const tokenOffsets = (text: string): readonly number[] => [...text.matchAll(TOKEN)].filter((m) => m[0] !== "$$").map((m) => m.index);

/** An unset or empty variable takes its default, as in a shell; a set and empty one without a default is empty. */
export function substitute(text: string, vars: Readonly<Record<string, string>>): Substituted {
  const names: string[] = [];
  const faults: Fault[] = [];
  const result = text.replace(TOKEN, (token, name: string | undefined, fallback: string | undefined, offset: number) => {
    if (token === "$$") return "$";
    if (name === undefined) {
      faults.push({ kind: "malformed", text: token, offset, length: token.length });
      return token;
    }
    names.push(name);
    const value = Object.hasOwn(vars, name) ? vars[name] : undefined;
    if (value !== undefined && (value !== "" || fallback === undefined)) return value;
    if (fallback !== undefined) return fallback.replaceAll("$$", "$");
    faults.push({ kind: "missing", name, offset, length: token.length });
    return token;
  });
  return { text: result, names, faults };
}

/** A text that substitution gives back as it is. */
export const escapeVariables = (text: string): string => text.replaceAll(/\$(?=[${])/g, "$$$$");
