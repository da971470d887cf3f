// From trees to documents: variables and text files put in, secrets kept as references, each object once.
import type { ManifestFile } from "./control.ts";
import type { Position, Problem } from "./errors.ts";
import { withoutServerFields } from "./normalise.ts";
import { DEFAULT_NAMESPACE } from "./resource.ts";
import type { Ref } from "./resource.ts";
import { isObject, scopeOf } from "./schema.ts";
import type { Schemas } from "./schema.ts";
import { lines, offsetAt, pairOf, textAt } from "./tree.ts";
import type { Lines, TextFault, Tree } from "./tree.ts";
import { mayShow } from "./secretref.ts";
import { pointerParts } from "./text.ts";
import { buildValue } from "./build.ts";

export interface ManifestDocument {
  readonly file: string;
  /** From 1; empty documents count. */
  readonly index: number;
  /** After substitution, without what beige writes itself. Unvalidated. */
  readonly value: unknown;
  /** Absent when kind or name cannot be told. */
  readonly ref?: Ref;
  /** Folder for relative paths. */
  readonly folder?: string;
  /** Where a field stands; its nearest parent when it is missing. */
  at(pointer: string, what?: "key" | "value"): Position;
  /** Source line, from 1; undefined when it may hold a secret in the clear. */
  line(number: number): string | undefined;
  /** Names of variables that went into the field: its value is not to be shown. */
  variables(pointer: string): readonly string[];
  /** Whether reading found a problem of the field: its value has a hole there, and one problem is enough. */
  reported(pointer: string): boolean;
}

export interface NeededFile {
  readonly manifest: string;
  readonly path: string;
}

type Parsing = (text: string) => Generator<undefined, readonly { readonly tree?: Tree; readonly faults: readonly TextFault[] }[]>;

/** More are counted, not listed. */
export const MAX_PROBLEMS = 100;

/** Work in steps, done at once. */
export function whole<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

export function* readingDocuments(
  files: readonly ManifestFile[],
  parsing: Parsing,
  schemas: Schemas,
): Generator<
  undefined,
  { readonly documents: readonly ManifestDocument[]; readonly problems: readonly Problem[]; readonly needFiles: readonly NeededFile[] }
> {
  const read: FileRead[] = [];
  for (const file of files) read.push(yield* readingFile(file, parsing, schemas));
  const documents = read.flatMap((r) => r.documents);
  const needFiles = new Map(read.flatMap((r) => r.needFiles).map((n) => [`${n.manifest}\0${n.path}`, n]));
  const problems = [...read.flatMap((r, i) => atMost(r.problems, files[i]?.name ?? "")), ...atMost(twice(documents), "all files")];
  return { documents, problems, needFiles: [...needFiles.values()] };
}

function atMost(problems: readonly Problem[], file: string): readonly Problem[] {
  const more = problems.length - MAX_PROBLEMS;
  return more <= 0 ? problems : [...problems.slice(0, MAX_PROBLEMS), { message: `and ${String(more)} more problems in ${file}` }];
}

interface FileRead {
  readonly documents: ManifestDocument[];
  readonly problems: Problem[];
  readonly needFiles: NeededFile[];
}

function* readingFile(file: ManifestFile, parsing: Parsing, schemas: Schemas): Generator<undefined, FileRead> {
  const source = lines(file.text);
  const read: FileRead = { documents: [], problems: [], needFiles: [] };
  for (const [i, { tree, faults }] of (yield* parsing(file.text)).entries()) {
    yield;
    const index = i + 1;
    const place = (offset: number): Position => ({ file: file.name, ...source.place(offset), document: index });
    for (const f of faults) {
      const at = place(f.offset);
      read.problems.push({ message: f.message, at, ...shownLine(source.line(at.line)), ...(f.hint === undefined ? {} : { hint: f.hint }) });
    }
    for (const part of tree ? listed(tree) : []) readOne({ file, index, tree: part, place, source, schemas }, read);
  }
  return read;
}

/** The objects of a `kind: List`, as lists are printed; any other tree is one object. */
function listed(tree: Tree): readonly Tree[] {
  const items = textAt(tree, "kind") === "List" ? pairOf(tree, "items")?.value : undefined;
  return items?.kind === "seq" ? items.items : [tree];
}

const shownLine = (text: string): { readonly line?: string } => (mayShow(text) ? { line: text } : {});

interface One {
  readonly file: ManifestFile;
  readonly index: number;
  readonly tree: Tree;
  readonly place: (offset: number) => Position;
  readonly source: Lines;
  readonly schemas: Schemas;
}

function readOne(one: One, read: FileRead): void {
  const { file, index, tree, place, schemas } = one;
  if (tree.kind !== "map") {
    const at = place(tree.offset);
    read.problems.push({
      message: `document is a ${tree.kind === "seq" ? "list" : "single value"}, not an object`,
      at,
      ...shownLine(one.source.line(at.line)),
      hint: "start it with apiVersion: and kind:",
    });
    return;
  }
  const kind = textAt(tree, "kind");
  const built = buildValue(tree, file, kind === undefined ? undefined : schemas.get(kind));
  const object = objectName(kind, textAt(tree, "metadata", "name"));
  const hidden = new Set(built.secrets.flatMap(({ offset, end }) => range(place(offset).line, place(end).line)));
  const line = (number: number): string | undefined => (hidden.has(number) ? undefined : shownLine(one.source.line(number)).line);
  for (const p of built.problems) {
    const at = place(p.offset);
    const { offset: _offset, ...problem } = p;
    const text = line(at.line);
    read.problems.push({
      ...problem,
      at,
      ...(object === undefined ? {} : { object }),
      ...(text === undefined ? {} : { line: text }),
    });
  }
  read.needFiles.push(...built.needFiles.map((path) => ({ manifest: file.name, path })));
  const reported = new Set(built.problems.map((p) => p.path ?? ""));
  const value = withoutServerFields(built.value);
  const ref = refIn(value, schemas);
  read.documents.push({
    file: file.name,
    index,
    value,
    ...(ref === undefined ? {} : { ref }),
    ...(file.folder === undefined ? {} : { folder: file.folder }),
    at: (path, what = "value") => place(offsetAt(tree, pointerParts(path), what)),
    line,
    variables: (path) => built.variables.get(path) ?? [],
    reported: (path) => reported.has(path),
  });
}

const range = (from: number, to: number): readonly number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

const objectName = (kind: string | undefined, name: string | undefined): string | undefined =>
  kind === undefined || name === undefined ? undefined : `${kind}/${name}`;

/** The reference that a value makes of itself; undefined when kind or name cannot be told. */
export function refIn(value: unknown, schemas: Schemas): Ref | undefined {
  if (!isObject(value) || !isObject(value["metadata"])) return undefined;
  const { kind } = value;
  const { name, namespace } = value["metadata"];
  if (typeof kind !== "string" || typeof name !== "string") return undefined;
  const scope = scopeOf(schemas, kind);
  if (scope === undefined) return undefined;
  return { kind, name, namespace: scope === "Cluster" ? "" : typeof namespace === "string" ? namespace : DEFAULT_NAMESPACE };
}

function twice(documents: readonly ManifestDocument[]): readonly Problem[] {
  const seen = new Map<string, ManifestDocument>();
  return documents.flatMap((d): Problem[] => {
    if (d.ref === undefined) return [];
    const key = `${d.ref.kind}/${d.ref.namespace}/${d.ref.name}`;
    const first = seen.get(key);
    if (first === undefined) {
      seen.set(key, d);
      return [];
    }
    const at = d.at("/metadata/name");
    const line = d.line(at.line);
    const other = first.at("/metadata/name");
    return [
      {
        message: `${d.ref.kind}/${d.ref.name} is here twice`,
        path: "/metadata/name",
        object: `${d.ref.kind}/${d.ref.name}`,
        at,
        ...(line === undefined ? {} : { line }),
        hint: `it is first at ${other.file}:${String(other.line)}; rename or remove one`,
      },
    ];
  });
}
