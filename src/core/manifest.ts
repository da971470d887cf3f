// The one door to YAML: text to documents with positions, and values to text.
import { Composer, Document, Lexer, LineCounter, Parser, isAlias, isMap, isScalar, isSeq, visit } from "yaml";
import type { ParsedNode, Scalar as YamlScalar, YAMLMap } from "yaml";
import type { ManifestFile } from "./control.ts";
import type { Problem } from "./errors.ts";
import { readingDocuments, whole } from "./documents.ts";
import type { ManifestDocument, NeededFile } from "./documents.ts";
import { SCHEMAS } from "./schema.ts";
import type { Schemas } from "./schema.ts";
import type { Pair, TextFault, Tree } from "./tree.ts";
import { escapeVariables } from "./variables.ts";

export type { ManifestDocument, NeededFile } from "./documents.ts";

/** Bytes of one file, about; text files beside it have their own limit. */
export const MAX_FILE = 4 * 1024 * 1024;
/** Words and marks of one file, and of one document: what costs time are long documents. */
const MAX_TOKENS = 400_000;
const MAX_DOCUMENT_TOKENS = 100_000;
/** Between two steps of reading; a whole document is one, too. */
const TOKENS_A_STEP = 1000;
const MAX_DEPTH = 100;
/** Values of one file after every alias and merge. */
const MAX_VALUES = 200_000;
const MAX_PROPERTIES = 2000;
const MAX_FAULTS = 100;

export interface Manifests {
  readonly documents: readonly ManifestDocument[];
  readonly problems: readonly Problem[];
  readonly needFiles: readonly NeededFile[];
}

/** Everything that the files say, and everything that is wrong with their text. Never throws for what is in them. */
export const readManifests = (files: readonly ManifestFile[], schemas: Schemas = SCHEMAS): Manifests =>
  whole(readingManifests(files, schemas));

/** The same in steps of a few milliseconds at most, for whoever has other things to do in between. */
export const readingManifests = (files: readonly ManifestFile[], schemas: Schemas = SCHEMAS): Generator<undefined, Manifests> =>
  readingDocuments(files, parsingTrees, schemas);

/** One document of a text; `tree` is absent when it is empty or has faults. */
export interface ParsedDocument {
  readonly tree?: Tree;
  readonly faults: readonly TextFault[];
}

/** All documents of a text, empty ones too. */
export const parseTrees = (text: string): readonly ParsedDocument[] => whole(parsingTrees(text));

function* parsingTrees(text: string): Generator<undefined, readonly ParsedDocument[]> {
  if (text.length > MAX_FILE) return [fault(0, `file is larger than ${String(MAX_FILE / 1024 / 1024)} MiB`)];
  const early = yield* tooMuch(text);
  if (early) return [{ faults: [early] }];
  const counter = new LineCounter();
  const tokens: Token[] = [];
  for (const token of new Parser(counter.addNewLine).parse(text)) {
    tokens.push(token);
    yield;
  }
  const deep = tooDeep(tokens);
  if (deep) return [{ faults: [deep] }];
  // Unique keys are checked below, with both places and in linear time. No pretty errors: their cost is quadratic.
  const composer = new Composer({
    uniqueKeys: false,
    prettyErrors: false,
    lineCounter: counter,
    logLevel: "silent",
    resolveKnownTags: false,
  });
  const budget = { left: MAX_VALUES };
  const documents: ParsedDocument[] = [];
  for (const document of composer.compose(tokens)) {
    documents.push(treeOf(text, document, budget));
    yield;
  }
  return documents;
}

function treeOf(text: string, document: Document.Parsed, budget: { left: number }): ParsedDocument {
  const faults = [...document.errors, ...document.warnings].slice(0, MAX_FAULTS).map((e) => explain(text, e.pos[0], e.message));
  const node = document.contents;
  if (faults.length > 0 || node === null || (isScalar(node) && node.value === null && node.range[0] === node.range[1])) return { faults };
  const made = convert(text, node, budget);
  return made.faults.length > 0 ? { faults: made.faults } : { tree: made.tree, faults: [] };
}

const fault = (offset: number, message: string, hint?: string): ParsedDocument => ({
  faults: [{ offset, message, ...(hint === undefined ? {} : { hint }) }],
});

/** What costs too much is refused by its tokens, before anything is built from them. */
function* tooMuch(text: string): Generator<undefined, TextFault | undefined> {
  let [offset, tokens, document, depth, properties, wrong] = [0, 0, 0, 0, 0, 0];
  let before = "";
  for (const token of new Lexer().lex(text)) {
    // The lexer's own marks (document, flow end, scalar) are single control characters that are not in the text.
    const mark = token === "\u0002" || token === "\u0018" || token === "\u001f";
    const first = before === "\u001f" ? "x" : (token[0] ?? "");
    if (first === "[" || first === "{") depth++;
    else if (first === "]" || first === "}") depth--;
    else if (first === "&" || first === "*" || first === "!") properties++;
    // Values or commas side by side are errors whose telling costs more than their text: a flood of them is not read.
    const value = "x[{\"'*".includes(first);
    if (value ? "x]}\"'*".includes(before) : (first === "," && before === ",") || depth < 0) wrong++;
    if (depth < 0) depth = 0;
    if (depth > MAX_DEPTH) return { offset, message: `nested more than ${String(MAX_DEPTH)} levels deep` };
    if (wrong > MAX_FAULTS) return { offset, message: `not valid YAML in more than ${String(MAX_FAULTS)} places` };
    if (tokens % TOKENS_A_STEP === 0) yield;
    document = token === "\u0002" || (token === "---" && before !== "\u001f") ? 0 : document + 1;
    if (++tokens > MAX_TOKENS || document > MAX_DOCUMENT_TOKENS)
      return { offset, message: "file has too many entries", hint: "split it into several files" };
    if (properties > MAX_PROPERTIES) return { offset, message: `file has more than ${String(MAX_PROPERTIES)} anchors, aliases and tags` };
    if (first !== " " && first !== "\t") before = first;
    if (!mark) offset += token.length;
  }
  return undefined;
}

type Token = Parameters<Composer["next"]>[0];

/** Nesting of the token tree, without recursion. */
function tooDeep(tokens: readonly Token[]): TextFault | undefined {
  let level: Token[] = [...tokens];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH + 1) return { offset: level[0]?.offset ?? 0, message: `nested more than ${String(MAX_DEPTH)} levels deep` };
    const below: Token[] = [];
    for (const token of level) {
      if (token.type === "document" && token.value) below.push(token.value);
      if (!("items" in token)) continue;
      for (const item of token.items) {
        if (item.key) below.push(item.key);
        if (item.value) below.push(item.value);
      }
    }
    level = below;
  }
  return undefined;
}

function explain(text: string, offset: number, message: string): TextFault {
  const at = Math.max(0, offset);
  const from = text.lastIndexOf("\n", at - 1) + 1;
  const end = text.indexOf("\n", at);
  const line = text.slice(from, end === -1 ? undefined : end);
  const first = (message.split("\n")[0] ?? "").replace(/[.:]+$/, "");
  const plain = `not valid YAML: ${first.slice(0, 1).toLowerCase()}${first.slice(1)}`;
  // In {…} and […] a brace ends a plain word, so ${X} comes apart.
  const hint = /[[{,:]\s*\$\{/.test(line) ? 'quote the variable inside braces and brackets: "${NAME}"' : undefined;
  return { offset: at, message: plain, ...(hint === undefined ? {} : { hint }) };
}

interface Conversion {
  readonly text: string;
  readonly anchors: Map<string, { readonly tree?: Tree; readonly size: number }>;
  readonly faults: TextFault[];
  readonly budget: { left: number };
}

function convert(text: string, node: ParsedNode, budget: { left: number }): { tree: Tree; faults: readonly TextFault[] } {
  const state: Conversion = { text, anchors: new Map(), faults: [], budget };
  return { tree: toTree(node, state), faults: state.faults };
}

const NOTHING: Tree = { kind: "scalar", offset: 0, end: 0, value: null };

function say(state: Conversion, offset: number, message: string, hint?: string): Tree {
  if (state.faults.length < MAX_FAULTS) state.faults.push({ offset, message, ...(hint === undefined ? {} : { hint }) });
  return NOTHING;
}

/** Takes from what the file may still expand to; says so once. */
function spend(state: Conversion, amount: number, offset: number): boolean {
  const had = state.budget.left;
  state.budget.left -= amount;
  if (had >= 0 && state.budget.left < 0)
    say(state, offset, `file grows to more than ${String(MAX_VALUES)} values`, "use fewer aliases, or split it");
  return state.budget.left >= 0;
}

function toTree(node: ParsedNode, state: Conversion): Tree {
  const offset = node.range[0];
  if (isAlias(node)) {
    const target = state.anchors.get(node.source);
    if (target === undefined) return say(state, offset, `alias *${node.source} has no anchor before it`);
    if (target.tree === undefined) return say(state, offset, `alias *${node.source} contains itself`);
    return spend(state, target.size, offset) ? target.tree : NOTHING;
  }
  const before = state.budget.left;
  if (node.anchor !== undefined) state.anchors.set(node.anchor, { size: 0 });
  if (!spend(state, 1, offset)) return NOTHING;
  const tree: Tree = isScalar(node)
    ? scalarTree(node, state)
    : isSeq(node)
      ? { kind: "seq", offset, items: node.items.map((item) => toTree(item, state)) }
      : isMap(node)
        ? { kind: "map", offset, pairs: mapPairs(node, state) }
        : NOTHING;
  if (node.anchor !== undefined) state.anchors.set(node.anchor, { tree, size: Math.max(1, before - state.budget.left) });
  return tree;
}

function scalarTree(node: YamlScalar.Parsed, state: Conversion): Tree {
  const [offset, end] = node.range;
  const value: unknown = node.value;
  if (typeof value === "string" || typeof value === "boolean" || value === null) return { kind: "scalar", offset, end, value };
  if (typeof value !== "number") return say(state, offset, "value is no text, number, boolean or null", "quote it");
  if (!Number.isFinite(value)) return say(state, offset, `${node.source ?? "number"} is not a finite number`, "quote it to make it text");
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return say(state, offset, `${node.source ?? "number"} is too large to be kept exactly`, "quote it to make it text");
  return { kind: "scalar", offset, end, value };
}

/** Own keys, then merged ones that are not there yet. */
function mapPairs(node: YAMLMap.Parsed, state: Conversion): readonly Pair[] {
  const pairs = new Map<string, Pair>();
  const merged: Tree[] = [];
  for (const item of node.items) {
    const key = item.key;
    const { value } = item;
    const keyOffset = key?.range[0] ?? node.range[0];
    const tree = value === null ? { ...NOTHING, offset: key?.range[1] ?? keyOffset } : toTree(value, state);
    if (!isScalar(key)) say(state, keyOffset, "a key must be a word", "write it as text");
    else if (key.value === "<<" && key.type === "PLAIN") merged.push(tree);
    else addPair(pairs, { key: keyText(key), keyOffset, value: tree }, state);
  }
  for (const source of merged) mergePairs(pairs, source, state);
  return [...pairs.values()];
}

/** Keys are always text: a plain 8080 or true is the word as it is written. Undefined for no word at all. */
const keyText = (key: YamlScalar): string | undefined => {
  if (typeof key.value === "string") return key.value;
  return key.source === undefined || key.source === "" ? undefined : key.source;
};

const UNSAFE = new Set(["__proto__", "constructor", "prototype"]);

function addPair(pairs: Map<string, Pair>, pair: Omit<Pair, "key"> & { readonly key: string | undefined }, state: Conversion): void {
  const { key, keyOffset, value } = pair;
  const first = key === undefined ? undefined : pairs.get(key);
  if (key === undefined) say(state, keyOffset, "a key is empty");
  else if (UNSAFE.has(key)) say(state, keyOffset, `key "${key}" is not allowed`);
  else if (first === undefined) pairs.set(key, { key, keyOffset, value });
  else if (state.faults.length < MAX_FAULTS)
    say(state, keyOffset, `key "${key}" is here twice`, `it is first on line ${String(lineOf(state.text, first.keyOffset))}; remove one`);
}

const lineOf = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;

function mergePairs(pairs: Map<string, Pair>, source: Tree, state: Conversion): void {
  const maps = source.kind === "seq" ? source.items : [source];
  for (const map of maps) {
    if (map.kind !== "map") {
      if (state.faults.length === 0) say(state, map.offset, "<< merges mappings only", "point it at an anchor of a mapping: <<: *name");
      continue;
    }
    if (!spend(state, map.pairs.length, map.offset)) return;
    for (const pair of map.pairs) if (!pairs.has(pair.key)) pairs.set(pair.key, pair);
  }
}

/** A text of one document, such as host.yaml. */
export function parseYaml(text: string): ParsedDocument {
  const documents = parseTrees(text);
  const [first, second] = documents;
  if (second) return fault(second.tree?.offset ?? second.faults[0]?.offset ?? 0, "only one document is allowed here");
  return first ?? { faults: [] };
}

/** `escape` makes the text safe to be read as a manifest again: ${ and $$ are doubled. */
export function toYaml(value: unknown, options: { readonly escape?: boolean } = {}): string {
  const shown = options.escape === true ? escaped(value) : value;
  const document = new Document(shown, { compat: "yaml-1.1", aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === "string" && (AMBIGUOUS.test(node.value) || FRAGILE.test(node.value))) node.type = "QUOTE_DOUBLE";
    },
  });
  // What has one of these is in double quotes, where the library leaves them as they are and older readers stumble.
  return document.toString({ lineWidth: 0 }).replace(UNPRINTABLE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;
/** White space that a block of lines would lose, tabs within a line, and characters that nobody sees. */
const FRAGILE =
  /^[\s]|[ \t]$|[ \t]\n|\n[ \t]*\n?$(?<!\S\n)|^[^\n]*\t[^\n]*$|[\r\u0085\u2028\u2029\ufeff\ufffe\uffff\u00a0]|[\p{Cc}](?<![\n\t])/u;
/** What a reader of YAML 1.1 takes for something else than text, besides what the library knows. */
const AMBIGUOUS = /^(?:[=]|<<|[yYnN]|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[-+]?[0-9._][0-9_.]*)$/;

function escaped(value: unknown): unknown {
  if (typeof value === "string") return escapeVariables(value);
  if (Array.isArray(value)) return value.map(escaped);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, escaped(item)]));
}
