// What stands behind a Source: folders of manifests, and the way of their revisions into the store.
import type { ManifestFile } from "./control.ts";
import type { Problem } from "./errors.ts";
import type { FieldChange } from "./kind.ts";

/** A folder of manifests as it was at one moment. */
export interface Tree {
  /** Where it really is: its path with every link resolved, and its inode. */
  readonly place: string;
  /** SHA-256 over the names and bytes of everything that was read. */
  readonly hash: string;
  /** Names are relative to the folder. */
  readonly files: readonly ManifestFile[];
  /** What cannot be read: links that lead out of the folder, text that is not UTF-8. */
  readonly problems: readonly Problem[];
  /** What is checked out, where the folder lies in a git work tree. Whether files differ from it is not known. */
  readonly git?: { readonly commit: string; readonly branch?: string };
}

/** Folders of manifests: read whole, and watched for hints. */
export interface Trees {
  /**
   * The folder when it has settled: two looks in a row that saw the same, or one that saw `known`.
   * Throws `not_found` without a folder, `invalid` beyond a limit, `unavailable` when it does not settle.
   */
  read(path: string, options: { readonly vars: Readonly<Record<string, string>>; readonly known?: string }): Promise<Tree>;
  /** The place that is watched for a Source. */
  watched(name: string): string | undefined;
  /** Hints only: changes may be missed, and what fails is logged. Replaces an older watch of that name. */
  watch(name: string, path: string, place: string): void;
  unwatch(name: string): void;
  names(): readonly string[];
}

/** One revision of a Source, to become the wanted objects. */
export interface StackRequest {
  readonly source: string;
  readonly files: readonly ManifestFile[];
  /** Identifies content and conditions: kept when the revision is accepted. */
  readonly key: string;
  readonly hash: string;
  /** As people read it. */
  readonly revision: string;
  /** The last request to reconcile that this one answers. */
  readonly asked?: string;
  /** Take back fields and objects that were this Source's and that somebody took by force. */
  readonly heal: boolean;
  /** Take fields of others too. */
  readonly force: boolean;
  readonly prune: boolean;
  /** Percent such as "30%", or a number of objects. */
  readonly maxDeletes: string | number;
  readonly allowEmpty: boolean;
  /** What host policy lets a Source bring. */
  readonly kinds: readonly string[];
  readonly variables: readonly string[];
}

export type StackAnswer =
  | { readonly state: "problems"; readonly problems: readonly Problem[] }
  | { readonly state: "conflicts" | "refused"; readonly message: string; readonly hint: string }
  | { readonly state: "fine"; readonly changed: number; readonly unchanged: number; readonly deleted: number };

/** The last revision that was accepted. */
export interface StackRecord {
  readonly key: string;
  readonly hash: string;
  readonly revision: string;
  readonly asked?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** How many objects it has. */
  readonly objects: number;
}

/** Of an object that drifted because it is on its way out: it comes back when it is gone. */
export const BEING_DELETED = "being deleted";

/** Revisions of Sources on their way to the store, by the same code as an apply. The manager is `source/NAME`. */
export interface Stacks {
  accepted(source: string): StackRecord | undefined;
  /** Objects of the accepted revision that are gone, and fields of them that others own now. */
  drift(source: string): readonly FieldChange[];
  /** What `apply` would answer; changes nothing. */
  check(request: StackRequest): Promise<StackAnswer>;
  /** One transaction. Throws `invalid` or `conflict` unless the answer is fine. */
  apply(request: StackRequest): Promise<void>;
  /** The same for the accepted revision as it was read, to mend drift while the folder holds nothing good. */
  good(source: string): StackRequest | undefined;
  /** Gives up everything that the Source holds; `delete` also deletes what nobody else holds. */
  release(source: string, how: { readonly delete: boolean }): Promise<void>;
  /** How many objects the Source holds, those that left its folder and stay among them. */
  held(source: string): number;
  /** Sources that hold anything, wanted or not. */
  names(): readonly string[];
}
