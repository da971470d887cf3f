// Builds the value of one document: substitution on scalars, text files, and references in place of secrets.
import type { ManifestFile } from "./control.ts";
import type { Problem } from "./errors.ts";
import { record } from "./normalise.ts";
import { member, resolve } from "./schema.ts";
import type { Schema } from "./schema.ts";
import { looksSecret } from "./secretref.ts";
import { dotted, pointer } from "./text.ts";
import { textAt } from "./tree.ts";
import type { Scalar, Tree } from "./tree.ts";
import { onlyVariable, substitute, tokenOffsets } from "./variables.ts";

export interface BuildProblem extends Problem {
  readonly offset: number;
}

export interface Built {
  readonly value: unknown;
  readonly problems: readonly BuildProblem[];
  readonly needFiles: readonly string[];
  /** Names of the variables in each substituted field, by pointer. */
  readonly variables: ReadonlyMap<string, readonly string[]>;
  /** Where something stands that may be a secret in the clear. */
  readonly secrets: readonly { readonly offset: number; readonly end: number }[];
}

interface State {
  readonly file: ManifestFile;
  readonly problems: BuildProblem[];
  readonly needFiles: string[];
  readonly variables: Map<string, readonly string[]>;
  readonly secrets: { readonly offset: number; readonly end: number }[];
}

type Path = readonly string[];

export function buildValue(tree: Tree, file: ManifestFile, schema: Schema | undefined): Built {
  const state: State = { file, problems: [], needFiles: [], variables: new Map(), secrets: [] };
  const value = build(tree, { schema: schema && resolve(schema), path: [] }, state);
  return { value, problems: state.problems, needFiles: state.needFiles, variables: state.variables, secrets: state.secrets };
}

interface Place {
  readonly schema: Schema | undefined;
  readonly path: Path;
  /** Inside a secret reference. */
  readonly secret?: boolean;
}

function build(tree: Tree, place: Place, state: State): unknown {
  const { schema, path } = place;
  if (schema?.["x-beige-secret"] === true && tree.kind === "scalar") return secretReference(tree, path, state);
  if (schema?.["x-beige-file"] === true && tree.kind === "map") {
    const text = fileText(tree, path, state);
    if (text !== undefined) return text;
  }
  const secret = place.secret === true || schema?.["x-beige-secret"] === true;
  if (tree.kind === "scalar") return scalar(tree, { ...place, secret }, state);
  if (tree.kind === "seq")
    return tree.items.map((item, i) =>
      build(item, { schema: schema?.items && resolve(schema.items), path: [...path, String(i)], secret }, state),
    );
  return record(
    tree.pairs.map((pair) => [
      pair.key,
      build(pair.value, { schema: schema && member(schema, pair.key), path: [...path, pair.key], secret }, state),
    ]),
  );
}

function scalar(tree: Scalar, place: Place, state: State): unknown {
  const { path } = place;
  if (place.secret === true && !isReference(path.at(-1), tree.value)) return inTheClear(tree, path, state, path.at(-2));
  if (typeof tree.value !== "string" || !tree.value.includes("$")) return tree.value;
  const result = substitute(tree.value, state.file.vars);
  if (result.names.length > 0) state.variables.set(pointer(path), result.names);
  if (place.secret === true && result.names.length > 0 && path.at(-1) === "env") {
    state.problems.push({
      message: `${dotted(path)} would name a variable by the value of another one`,
      path: pointer(path),
      offset: tree.offset,
      hint: `name it: {env: ${result.names[0] ?? "NAME"}}`,
    });
    return tree.value;
  }
  const offsetOf = result.faults.length === 0 ? undefined : sourceOffsets(tree, state.file.text);
  for (const fault of result.faults) {
    const offset = offsetOf?.get(fault.offset) ?? tree.offset;
    const missing = fault.kind === "missing";
    state.problems.push({
      message: missing ? `\${${fault.name}} is not set` : `"${fault.text}" is no variable`,
      path: pointer(path),
      offset,
      hint: missing ? `set it, or give a default: \${${fault.name}:-}` : "write ${NAME} or ${NAME:-default}; $$ is a literal $",
    });
  }
  return result.text;
}

/** Offsets in the file of the tokens in a scalar: quotes and folds move them, so they are looked for in the source by their count. */
function sourceOffsets(tree: Scalar, text: string): ReadonlyMap<number, number> {
  const found = tokenOffsets(text.slice(tree.offset, tree.end));
  const inValue = tokenOffsets(String(tree.value)).slice(0, found.length);
  return new Map(inValue.map((offset, i) => [offset, tree.offset + (found[i] ?? 0)]));
}

/** A whole ${X} means {env: X}; anything else in the place of a reference is a secret in the clear, and is never repeated. */
function secretReference(tree: Scalar, path: Path, state: State): unknown {
  const name = typeof tree.value === "string" ? onlyVariable(tree.value) : undefined;
  if (name !== undefined) return { env: name };
  if (tree.value === null) return null;
  return inTheClear(tree, path, state, path.at(-1));
}

function inTheClear(tree: Scalar, path: Path, state: State, field: string | undefined): undefined {
  state.secrets.push(tree);
  state.problems.push({
    message: `${dotted(path)} holds a secret in the clear`,
    path: pointer(path),
    offset: tree.offset,
    hint: `name it instead: ${field ?? "key"}: {secret: NAME} (beige secret set NAME), or ${field ?? "key"}: {env: VARIABLE}`,
  });
}

/** Whether a value inside a reference can be the name that it should be. Unknown keys hold what nobody wants to see. */
function isReference(key: string | undefined, value: Scalar["value"]): boolean {
  if (typeof value !== "string") return value === null;
  if (key === "env") return value.includes("${") || (/^[A-Za-z_][A-Za-z0-9_]*$/.test(value) && !looksSecret(value));
  return key === "secret" && !looksSecret(value);
}

/** Text for {file: PATH}; undefined when this is no such reference, or its content is still needed. */
function fileText(tree: Tree, path: Path, state: State): string | undefined {
  const named = textAt(tree, "file");
  if (named === undefined || tree.kind !== "map" || tree.pairs.length !== 1) return undefined;
  const place = tree.pairs[0]?.value.offset ?? tree.offset;
  const { text: file, faults } = substitute(named, state.file.vars);
  if (faults.length > 0) return undefined;
  if (file.startsWith("/") || file.split("/").includes("..")) {
    state.problems.push({
      message: `${dotted(path)} names a file outside the manifest's folder`,
      path: pointer([...path, "file"]),
      offset: place,
      hint: "put the file beside the manifest, or below it",
    });
    return "";
  }
  if (Object.hasOwn(state.file.files, file)) return state.file.files[file];
  state.needFiles.push(file);
  return undefined;
}
