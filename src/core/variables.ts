// ${VAR}, ${VAR:-default} and $$ in one text: one pass, never expanded again, in linear time.

export type Fault = { readonly offset: number; readonly length: number } & (
  | { readonly kind: "missing"; readonly name: string }
  | { readonly kind: "malformed"; readonly text: string }
);

export interface Substituted {
  readonly text: string;
  readonly names: readonly string[];
  readonly faults: readonly Fault[];
}

interface Token {
  readonly kind: "dollar" | "variable" | "malformed";
  readonly offset: number;
  readonly end: number;
  readonly name?: string;
  readonly fallback?: string;
}

const NAME = /[A-Za-z_][A-Za-z0-9_]{0,254}/y;
const MALFORMED = /\$\{[^\s}]{0,64}\}?/y;

const matchAt = (regex: RegExp, text: string, at: number): string | undefined => {
  regex.lastIndex = at;
  return regex.exec(text)?.[0];
};

/** A lone `$` is no token. */
function* tokens(text: string): Generator<Token> {
  let at = text.indexOf("$");
  while (at !== -1) {
    const next = text[at + 1];
    const token: Token | undefined =
      next === "$" ? { kind: "dollar", offset: at, end: at + 2 } : next === "{" ? variable(text, at) : undefined;
    if (token) yield token;
    at = text.indexOf("$", token?.end ?? at + 1);
  }
}

function variable(text: string, offset: number): Token {
  const name = matchAt(NAME, text, offset + 2);
  const after = offset + 2 + (name?.length ?? 0);
  if (name !== undefined && text[after] === "}") return { kind: "variable", offset, end: after + 1, name };
  const close = name !== undefined && text.startsWith(":-", after) ? defaultEnd(text, after + 2) : -1;
  if (name !== undefined && close !== -1) return { kind: "variable", offset, end: close + 1, name, fallback: text.slice(after + 2, close) };
  return { kind: "malformed", offset, end: offset + (matchAt(MALFORMED, text, offset)?.length ?? 2) };
}

/** The brace that ends a default; -1 when another variable comes before it, since defaults do not nest. */
function defaultEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "}") return at;
    if (text[at] !== "$") continue;
    if (text[at + 1] === "{") return -1;
    if (text[at + 1] === "$") at++;
  }
  return -1;
}

/** The name in a text that is one plain ${NAME} and nothing else. */
export const onlyVariable = (text: string): string | undefined => /^\$\{([A-Za-z_][A-Za-z0-9_]{0,254})\}$/.exec(text)?.[1];

/** Where tokens that are not `$$` stand, in order. */
export const tokenOffsets = (text: string): readonly number[] => [...tokens(text)].filter((t) => t.kind !== "dollar").map((t) => t.offset);

/** Names of variables in order of appearance, each once. `$${X}` names none. */
export const variableNames = (text: string): readonly string[] => [...new Set([...tokens(text)].flatMap((t) => t.name ?? []))];

/** An unset or empty variable takes its default, as in a shell; a set and empty one without a default is empty. */
export function substitute(text: string, vars: Readonly<Record<string, string>>): Substituted {
  const names: string[] = [];
  const faults: Fault[] = [];
  const parts: string[] = [];
  let last = 0;
  for (const token of tokens(text)) {
    const source = text.slice(token.offset, token.end);
    parts.push(text.slice(last, token.offset), token.kind === "dollar" ? "$" : (valueOf(token, vars) ?? source));
    last = token.end;
    if (token.name !== undefined) names.push(token.name);
    const place = { offset: token.offset, length: source.length };
    if (token.kind === "malformed") faults.push({ kind: "malformed", text: source, ...place });
    else if (token.name !== undefined && valueOf(token, vars) === undefined) faults.push({ kind: "missing", name: token.name, ...place });
  }
  return { text: parts.join("") + text.slice(last), names, faults };
}

function valueOf({ name, fallback }: Token, vars: Readonly<Record<string, string>>): string | undefined {
  const value = name !== undefined && Object.hasOwn(vars, name) ? vars[name] : undefined;
  return value !== undefined && (value !== "" || fallback === undefined) ? value : fallback?.replaceAll("$$", "$");
}

/** A text that substitution gives back as it is. */
export const escapeVariables = (text: string): string => text.replaceAll(/\$(?=[${])/g, () => "$$");
