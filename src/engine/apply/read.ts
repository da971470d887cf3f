// From manifest files to wanted objects: everything that is wrong with any of them, before anything is touched.
import type { ManifestFile } from "../../core/control.ts";
import { MAX_PROBLEMS, type ManifestDocument, type NeededFile } from "../../core/documents.ts";
import type { Problem } from "../../core/errors.ts";
import { fingerprint } from "../../core/fingerprint.ts";
import { withoutServerFields } from "../../core/normalise.ts";
import { readingManifests, type Manifests } from "../../core/manifest.ts";
import type { Owned } from "../../core/ownership.ts";
import { refKey, type Ref, type Resource } from "../../core/resource.ts";
import { validateDocument, validateObject } from "../../core/validate.ts";
import { placed, type Language } from "../language.ts";
import { ratchet, type Judged } from "../ratchet.ts";

/** One document that is valid by its schema. */
export interface WantedDocument {
  readonly ref: Ref;
  /** As written, without defaults. */
  readonly applied: Owned;
  readonly document: ManifestDocument;
  /** What its schema refuses, in fields that are stored just so already. */
  readonly old: readonly Problem[];
}

export interface ReadSet {
  readonly wanted: readonly WantedDocument[];
  readonly problems: readonly Problem[];
  readonly needFiles: readonly NeededFile[];
}

function ownedOf(value: unknown): Owned {
  const { metadata, spec } = value as { metadata?: Owned["metadata"]; spec?: unknown };
  return { ...(metadata === undefined ? {} : { metadata }), spec };
}

/** Objects that two files hold; within one file the reader says it. */
function twice(documents: readonly ManifestDocument[]): readonly Problem[] {
  const seen = new Map<string, ManifestDocument>();
  return documents.flatMap((document): Problem[] => {
    if (document.ref === undefined) return [];
    const { kind, name } = document.ref;
    const first = seen.get(refKey(document.ref));
    if (first === undefined) seen.set(refKey(document.ref), document);
    if (first === undefined || first.file === document.file) return [];
    const other = first.at("/metadata/name");
    const object = `${kind}/${name}`;
    const hint = `it is first at ${other.file}:${other.line}; rename or remove one`;
    return [placed({ message: `${object} is here twice`, path: "/metadata/name", object, hint }, document)];
  });
}

/** The stored object of a name. */
export type Stored = (ref: Ref) => Resource | undefined;

/** Against its schema: what the stored object has too, and this document leaves as it is, does not stand in its way. */
function judge(document: ManifestDocument, { schemas }: Language, stored: Stored): Judged {
  const found = validateDocument(document, schemas);
  const before = found.length === 0 || document.ref === undefined ? undefined : stored(document.ref);
  if (document.ref === undefined || before === undefined) return { refused: found, kept: [] };
  const sides = { kind: document.ref.kind, before, after: document.value, schemas };
  return ratchet(found, { ...sides, of: "fields", old: () => validateObject(withoutServerFields(before), schemas) });
}

/** Step by step, so that a large set does not hold the event loop. */
async function readAnew(files: readonly ManifestFile[], language: Language, pace: () => Promise<void>, stored: Stored): Promise<ReadSet> {
  const read: Manifests[] = [];
  for (const file of files) {
    const steps = readingManifests([file], language.schemas);
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) await pace();
    read.push(step.value);
  }
  const documents = read.flatMap((r) => r.documents);
  const problems = [...read.flatMap((r) => r.problems), ...twice(documents)];
  const wanted: WantedDocument[] = [];
  for (const document of documents) {
    const { refused, kept } = judge(document, language, stored);
    problems.push(...refused);
    if (refused.length === 0 && document.ref !== undefined)
      wanted.push({ ref: document.ref, applied: ownedOf(document.value), document, old: kept });
    await pace();
  }
  return { wanted, problems: problems.slice(0, MAX_PROBLEMS), needFiles: read.flatMap((r) => r.needFiles) };
}

const RECENT_MAX = 4;
const RECENT_CHARS = 64 * 1024;
/** Good sets that were read lately: a diff, its apply and the next apply send the same files. */
const recent = new WeakMap<Language, Map<string, ReadSet>>();

/** What the files hold, as a key; undefined where keeping what is made of them would take much memory. */
function keyOf(files: readonly ManifestFile[]): string | undefined {
  const text = JSON.stringify(files);
  return text.length > RECENT_CHARS ? undefined : fingerprint(text);
}

export async function readSet(
  files: readonly ManifestFile[],
  language: Language,
  pace: () => Promise<void>,
  stored: Stored = () => undefined,
): Promise<ReadSet> {
  const key = keyOf(files);
  const kept = recent.get(language) ?? new Map<string, ReadSet>();
  recent.set(language, kept);
  const known = key === undefined ? undefined : kept.get(key);
  if (known !== undefined) return known;
  const read = await readAnew(files, language, pace, stored);
  if (key === undefined || read.problems.length > 0 || read.needFiles.length > 0) return read;
  // Good only beside what is stored.
  if (read.wanted.some(({ old }) => old.length > 0)) return read;
  kept.set(key, read);
  for (const old of [...kept.keys()].slice(0, -RECENT_MAX)) kept.delete(old);
  return read;
}
