// How one sort of object is looked at and changed: the contract between the engine and a controller.
import type { ErrorCode, Problem } from "./errors.ts";
import type { Ref, Resource } from "./resource.ts";
import type { World } from "./world.ts";

/** One changed field, secrets already replaced by "[secret]". */
export interface FieldChange {
  /** Dotted, with list items by identity: sandbox.mounts[/data].readOnly */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly forces?: boolean;
  /** What changing it does to what runs, as its schema says. */
  readonly impact?: "live" | "update" | "replace";
}

/** What an action does to its object, from least to most. */
export type Impact = "live" | "update" | "adopt" | "create" | "replace" | "delete";
export type Why = "spec" | "drift" | "missing" | "image" | "prune" | "delete" | "due";

/** One effect, with all the data that `act` needs. Kinds add their own fields. */
export interface Action {
  readonly type: string;
  readonly impact: Impact;
  readonly why: Why;
  /** What will be done, for plans, events and the control chain: `create container beige-travel`. */
  readonly summary: string;
  readonly fields?: readonly FieldChange[];
  /** Recorded as an event of the object; bookkeeping actions say false. */
  readonly quiet?: boolean;
}

/** A replacement that is wanted and not begun. */
export interface Held {
  readonly why: Why;
  /** What it is about. */
  readonly fields: readonly FieldChange[];
  /** What it waits for: `held back until it is idle`. */
  readonly until: string;
}

/** What the plan wants and waits for. An empty `actions` with `ready` is convergence. */
export interface Plan<A extends Action = Action> {
  readonly actions: readonly A[];
  readonly ready: boolean | "unknown";
  /** CamelCase word; "Ready" when all is well. */
  readonly reason: string;
  /** A sentence; empty when all is well. */
  readonly message: string;
  /** Look again when this object changes, or after this many milliseconds; never an error. */
  readonly wait?: { readonly on?: readonly Ref[]; readonly ms?: number };
  /** Becomes status.observed. */
  readonly observed?: Readonly<Record<string, unknown>>;
  /** Fields of the world that differ from the wanted ones: condition Drifted. */
  readonly drift?: readonly FieldChange[];
  /** Further conditions besides Ready and Drifted. */
  readonly degraded?: { readonly reason: string; readonly message: string };
  readonly suspended?: boolean;
  readonly held?: Held;
  /** What this machine cannot give of the protection that is wanted, a few words each: condition Hardened. Absent: unknown. */
  readonly lacks?: readonly string[];
  /** What of it can never be made in this world as it is now: an apply that brings it changes nothing. */
  readonly refused?: readonly Problem[];
  /** Deletion only: nothing is left to do, so the object may go. */
  readonly gone?: boolean;
}

/** Work that outlives one pass, kept in the store: the steps of a replacement. */
export interface Intent {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

export interface Want<R extends Resource = Resource> {
  readonly object: R;
  readonly deleting: boolean;
  readonly intent?: Intent;
}

/** What a plan may know besides its own object: data only. */
export interface View {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Identifies this store on the engine: label beige.dev/store. */
  readonly store: string;
  /** Absolute path of BEIGE_HOME. */
  readonly home: string;
  /** Whether BEIGE_HOME is the default one; other homes get a suffix on container names. */
  readonly defaultHome: boolean;
  /** Wanted objects, with the status that is known of them. */
  get(ref: Ref): Resource | undefined;
  list(kind: string): readonly Resource[];
  /** Folder of the manifest that an object came from, for relative paths; absent for API callers. */
  origin(ref: Ref): string | undefined;
  readonly host: import("../../schemas/types.ts").HostPolicy;
  /** Agents whose folders are not where their name leads. */
  readonly seatOf?: import("./seat.ts").SeatOf;
}

/** A reference that an object makes, and where in it. */
export interface Need {
  readonly ref: Ref;
  /** RFC 6901 pointer. */
  readonly path: string;
}

/** A column of `get`, read from the object alone. */
export interface Column {
  readonly name: string;
  /** Shown only by -o wide when 1. */
  readonly priority: 0 | 1;
  readonly description: string;
  readonly value: (object: Resource, now: number) => string | number;
}

export interface Kind<R extends Resource = Resource, Observed = unknown, A extends Action = Action> {
  readonly kind: R["kind"];
  readonly plural: string;
  readonly short: readonly string[];
  readonly scope: "Cluster" | "Namespaced";
  /** The whole JSON Schema of the kind. */
  readonly schema: object;
  readonly columns: readonly Column[];
  /** Objects that have one of these finalizers wait for `plan` to say `gone`. */
  readonly finalizer?: string;
  needs(r: R): readonly Need[];
  /** Problems that the schema cannot see: unknown tools, overlapping folders. Pure; secrets and the world are not asked. */
  check?(r: R, view: View): readonly Problem[];
  /** What the world holds of this kind under our store's label, wanted or not. */
  names(w: World): Promise<readonly Ref[]>;
  /** `want` is absent for an orphan. Reads only. The view tells where relative paths start and what the objects it refers to are. */
  observe(w: World, ref: Ref, want: R | undefined, view: View): Promise<Observed>;
  /** Pure. `want` undefined is an orphan: nothing wanted, and never its workspace deleted. */
  plan(want: Want<R> | undefined, seen: Observed, view: View): Plan<A>;
  /** One effect, idempotent. Throws BeigeError. */
  act(w: World, action: A, signal: AbortSignal): Promise<void>;
}

/** A list of kinds does not care for their private types. */
// eslint-disable-next-line -- variance: the engine only ever hands a kind its own values back.
export type AnyKind = Kind<any, any, any>;

export const defineKind = <R extends Resource, O, A extends Action>(kind: Kind<R, O, A>): Kind<R, O, A> => kind;

/** What the engine does after a pass over one object. */
export type Verdict =
  | { readonly next: "settled" }
  | { readonly next: "wait"; readonly ms?: number; readonly on?: readonly Ref[] }
  | { readonly next: "retry"; readonly code: ErrorCode; readonly message: string; readonly retryAfterMs?: number };
