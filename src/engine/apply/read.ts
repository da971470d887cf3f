// From manifest files to wanted objects: everything that is wrong with any of them, before anything is touched.
import type { ManifestFile } from "../../core/control.ts";
import { MAX_PROBLEMS, type ManifestDocument, type NeededFile } from "../../core/documents.ts";
import type { Problem } from "../../core/errors.ts";
import { readManifests } from "../../core/manifest.ts";
import type { Owned } from "../../core/ownership.ts";
import type { Ref } from "../../core/resource.ts";
import { validateDocument } from "../../core/validate.ts";
import type { Language } from "../language.ts";

/** One document that is valid by its schema. */
export interface WantedDocument {
  readonly ref: Ref;
  /** As written, without defaults. */
  readonly applied: Owned;
  readonly document: ManifestDocument;
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

export async function readSet(files: readonly ManifestFile[], language: Language, pace: () => Promise<void>): Promise<ReadSet> {
  const read = readManifests(files, language.schemas);
  await pace();
  const problems = [...read.problems];
  const wanted: WantedDocument[] = [];
  for (const document of read.documents) {
    const found = validateDocument(document, language.schemas);
    problems.push(...found);
    if (found.length === 0 && document.ref !== undefined) wanted.push({ ref: document.ref, applied: ownedOf(document.value), document });
    await pace();
  }
  return { wanted, problems: problems.slice(0, MAX_PROBLEMS), needFiles: read.needFiles };
}
