// What is known of a Source when its plan is made: data only.
import type { Action, FieldChange } from "../../src/core/kind.ts";
import type { Problem } from "../../src/core/errors.ts";
import type { StackAnswer, StackRecord, StackRequest, Tree } from "../../src/core/source.ts";

export type TreeSeen =
  | { readonly ok: true; readonly tree: Pick<Tree, "place" | "hash" | "git"> & { readonly files: number } }
  | {
      readonly ok: false;
      readonly reason: "PathMissing" | "PathRefused" | "TooLarge" | "Unsettled";
      readonly message: string;
      readonly problems?: readonly Problem[];
    };

export interface SourceSeen {
  readonly name: string;
  /** Absolute; absent where it cannot be told, and for an orphan. */
  readonly path?: string;
  /** Place that is watched. */
  readonly watched?: string;
  /** Absent when the folder is not read: suspended, deleting, orphaned. */
  readonly tree?: TreeSeen;
  readonly accepted?: StackRecord;
  readonly drift: readonly FieldChange[];
  /** Objects that the Source holds. */
  readonly held: number;
  /** What would become of the folder as it is; absent when it is what was accepted and nothing drifted. */
  readonly offer?: { readonly request: StackRequest; readonly answer: StackAnswer };
  /** The accepted revision once more, to mend drift while the folder holds nothing good. */
  readonly repair?: { readonly request: StackRequest; readonly answer: StackAnswer };
}

export type SourceAction = Action &
  (
    | { readonly type: "watch"; readonly name: string; readonly path: string; readonly place: string }
    | { readonly type: "unwatch"; readonly name: string }
    | { readonly type: "apply"; readonly request: StackRequest }
    | { readonly type: "release"; readonly name: string; readonly delete: boolean }
  );
