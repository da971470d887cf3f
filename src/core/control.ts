// What the engine offers to the API: apply, the object verbs, watches and events.
import type { Problem } from "./errors.ts";
import type { Column, FieldChange, Held, Why } from "./kind.ts";
import type { BudgetLine } from "./ledger.ts";
import type { Ref, Resource } from "./resource.ts";
import type { By } from "./who.ts";

export interface ManifestFile {
  /** As the user named it: shown in problems. */
  readonly name: string;
  /** Absolute folder, for relative paths in it. Absent for API callers, who give absolute paths. */
  readonly folder?: string;
  readonly text: string;
  /** Values of the variables that the text names; nothing else is substituted. */
  readonly vars: Readonly<Record<string, string>>;
  /** Content of {file: PATH} references, by path as written. */
  readonly files: Readonly<Record<string, string>>;
}

export type Verb = "create" | "update" | "replace" | "replace-later" | "delete" | "adopt" | "handover" | "unchanged";
export const SYMBOL: Readonly<Record<Verb, string>> = {
  create: "+",
  update: "~",
  replace: "+/-",
  "replace-later": "(+/-)",
  delete: "-",
  adopt: "⇐",
  handover: "→",
  unchanged: "=",
};

export interface ObjectPlan {
  readonly ref: Ref;
  readonly verb: Verb;
  readonly why: readonly Why[];
  /** Changed fields of the spec, and fields of the world that differ. */
  readonly fields: readonly FieldChange[];
  readonly drift: readonly FieldChange[];
  /** What will be done, in order. */
  readonly actions: readonly string[];
  /** Path of the field that forces a replacement. */
  readonly forces?: string;
  /** Why the replacement is not done by this. */
  readonly held?: Held;
  /** Open sessions, all kept. */
  readonly sessions?: number;
  /** Why it would not be Ready. */
  readonly message?: string;
  /** RFC 6902, from the stored labels, annotations and spec to the wanted ones. Only in a plan with `detail`. */
  readonly patch?: readonly { readonly op: string; readonly path: string; readonly value?: unknown }[];
}

/** Whether an apply of it changes nothing now: also where all of it is a replacement that is held back. */
export const changesNothing = ({ verb, fields, actions }: ObjectPlan): boolean =>
  verb === "unchanged" || (verb === "replace-later" && fields.length === 0 && actions.length === 0);

/** What one object's plan was made from, as fingerprints. */
export interface Basis {
  readonly ref: Ref;
  readonly uid?: string;
  /** Of the stored object without its status. */
  readonly stored: string;
  /** Of what the manifests make of it. */
  readonly wanted: string;
  /** Of what was seen of it, as the actions and the drift tell. */
  readonly world: string;
}

/** What a plan was made from: handed back with an apply, nothing but just that plan is carried out. */
export interface PlanBasis {
  /** Identity of the store. */
  readonly store: string;
  /** Version of the store then: for people, not compared. */
  readonly resourceVersion: string;
  readonly objects: readonly Basis[];
}

export interface StackPlan {
  /** In apply order. */
  readonly objects: readonly ObjectPlan[];
  readonly summary: {
    readonly create: number;
    readonly update: number;
    /** Also those that are held back. */
    readonly replace: number;
    readonly delete: number;
    readonly unchanged: number;
  };
  /** Objects of this set that the manifests no longer hold and that stay, since pruning was not asked for. */
  readonly left: readonly Ref[];
  readonly basis?: PlanBasis;
}

/** Who asks. Without it nothing that needs the operator at the unix socket is granted. */
export interface Asked {
  readonly by?: By;
}

export interface ApplyRequest extends Asked {
  readonly files: readonly ManifestFile[];
  /** The manager is `apply/SET`. */
  readonly set: string;
  readonly dryRun: boolean;
  readonly forceConflicts: boolean;
  readonly prune: boolean;
  /** How much of the set a prune may delete: a number of objects, or percent such as "30%" (the default). */
  readonly maxDeletes?: number | string;
  /** A prune may delete all of the set when the manifests hold nothing. */
  readonly allowEmpty?: boolean;
  /** The plan comes with patches and its basis. */
  readonly detail?: boolean;
  /** Refused as stale, with a conflict, unless the plan is still the one that has this basis. */
  readonly expect?: PlanBasis;
  /** Stream progress until every object is Ready or failed. */
  readonly wait: boolean;
  readonly timeoutMs: number;
}

export interface ApplyEnd {
  readonly type: "end";
  /** Exit code of the command line: 0 done, 2 invalid, 3 conflict, 6 deadline, 7 in part, 1 failed. */
  readonly exit: number;
  readonly applied: number;
  readonly unchanged: number;
  readonly failed: number;
  readonly message: string;
  readonly hint?: string;
}

export type ApplyEvent =
  | { readonly type: "problems"; readonly problems: readonly Problem[] }
  /** What was wrong with stored objects before and stays, in fields that the manifests do not change. */
  | { readonly type: "warnings"; readonly problems: readonly Problem[] }
  | { readonly type: "needFiles"; readonly files: readonly { readonly manifest: string; readonly path: string }[] }
  | { readonly type: "plan"; readonly plan: StackPlan }
  | {
      readonly type: "progress";
      readonly ref: Ref;
      readonly verb: Verb;
      readonly state: "working" | "waiting" | "ready" | "failed" | "gone";
      readonly reason: string;
      readonly message: string;
      readonly elapsedMs: number;
    }
  | ApplyEnd;

export interface ListOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export type WatchEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: Resource }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string }
  /** The version asked for is no longer kept: HTTP 410. Ends the watch. */
  | { readonly type: "EXPIRED" };

export interface WriteRequest extends Asked {
  readonly op: "create" | "update" | "apply" | "merge" | "json";
  readonly ref: Ref;
  /** Object for create, update and apply; RFC 7386 patch for merge, RFC 6902 for json. Unvalidated. */
  readonly body: unknown;
  readonly manager: string;
  readonly force: boolean;
  readonly dryRun: boolean;
}

export interface EventRecord {
  readonly name: string;
  readonly ref: Ref;
  readonly uid: string;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  /** RFC 3339. */
  readonly first: string;
  readonly last: string;
}

export interface Revision {
  readonly revision: number;
  /** RFC 3339. */
  readonly at: string;
  readonly manager: string;
  /** Parts of the spec that changed with it. */
  readonly fields: readonly string[];
  readonly spec: unknown;
}

export interface KindInfo {
  readonly kind: string;
  readonly plural: string;
  readonly short: readonly string[];
  readonly namespaced: boolean;
  readonly schema: object;
  readonly columns: readonly Column[];
}

/** All that is known of one object. */
export interface Described {
  readonly object: Resource;
  readonly plan: ObjectPlan;
  readonly events: readonly EventRecord[];
  readonly revisions: readonly {
    readonly revision: number;
    readonly at: string;
    readonly manager: string;
    readonly fields: readonly string[];
  }[];
  /** Limits on what it may spend, and how they stand. */
  readonly budgets?: readonly BudgetLine[];
}

/** Throws BeigeError: not_found, conflict, invalid (with problems). */
export interface Control {
  kinds(): readonly KindInfo[];
  get(ref: Ref): Resource;
  list(kind: string, options: ListOptions): { readonly items: readonly Resource[]; readonly resourceVersion: string };
  /**
   * From a resourceVersion on, or the current state as ADDED first when absent. Ends with the signal.
   * What is there at once comes together; watches that select nothing get the very same list.
   */
  watch(
    kind: string,
    options: ListOptions & { readonly resourceVersion?: string; readonly bookmarks?: boolean },
    signal: AbortSignal,
  ): AsyncIterable<readonly WatchEvent[]>;
  write(request: WriteRequest): Promise<{ readonly object: Resource; readonly created: boolean; readonly warnings: readonly string[] }>;
  /** Sets deletionTimestamp; answers the object as it is then. `force` gives up what blocks. */
  delete(
    ref: Ref,
    options: Asked & { readonly dryRun: boolean; readonly force: boolean; readonly uid?: string; readonly resourceVersion?: string },
  ): Promise<Resource>;
  apply(request: ApplyRequest, signal: AbortSignal): AsyncIterable<ApplyEvent>;
  describe(ref: Ref): Promise<Described>;
  /** Specs of the object, newest first; the last ten are kept. */
  revisions(ref: Ref): readonly Revision[];
  events(filter: { readonly ref?: Ref; readonly namespace?: string; readonly limit?: number }): readonly EventRecord[];
  /** Current resourceVersion of the store. */
  version(): string;
  /** Whether the first pass over every object has settled. */
  settled(): boolean;
}
