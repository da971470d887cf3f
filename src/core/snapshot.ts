// Snapshots of an agent's workspace: what is kept, told and asked of them.
import type { AgentId } from "./call.ts";

export interface SnapshotView {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly note: string;
  /** `person`: by the verb. `session`: before a new session. `restore`: what a restore was about to replace. */
  readonly cause: "person" | "session" | "restore";
  readonly files: number;
  readonly bytes: number;
  /** Bytes that were copied for it: all others are shared with an earlier one. */
  readonly copied: number;
  /** Sockets, pipes and devices, which are not kept. */
  readonly skipped: number;
}

export interface SnapshotChange {
  /** Relative to the workspace. */
  readonly path: string;
  readonly change: "added" | "removed" | "changed" | "mode";
}

export interface SnapshotDiff {
  readonly changes: readonly SnapshotChange[];
  /** More than are listed. */
  readonly more: number;
}

export interface SnapshotWish {
  readonly note?: string;
  readonly cause?: SnapshotView["cause"];
}

/** The folder, and where its snapshots are kept. */
export interface SnapshotPlace {
  readonly agent: Pick<AgentId, "namespace" | "name">;
  /** Absolute path of the workspace; its last part is no link. */
  readonly workspace: string;
}

/** Keeps copies that no sandbox can write to. Follows no link, and takes only so much. */
export interface Snapshots {
  create(place: SnapshotPlace, wish: SnapshotWish, signal: AbortSignal): Promise<SnapshotView>;
  /** Oldest first. */
  list(agent: SnapshotPlace["agent"]): Promise<readonly SnapshotView[]>;
  /** Makes the workspace as it was. Throws `not_found`. Nobody may write to it meanwhile. */
  restore(place: SnapshotPlace, id: string, signal: AbortSignal): Promise<void>;
  /** What became of it since, or until another snapshot. */
  diff(place: SnapshotPlace, ids: readonly [string, string?], signal: AbortSignal): Promise<SnapshotDiff>;
  remove(agent: SnapshotPlace["agent"], id: string): Promise<void>;
}

/** The same for the doors, by agent: who runs is asked first. */
export interface SnapshotDesk {
  create(agent: AgentId, wish: SnapshotWish, signal: AbortSignal): Promise<SnapshotView>;
  list(agent: AgentId): Promise<readonly SnapshotView[]>;
  /** Throws `conflict` while a call or a turn runs, unless they are to be ended. Answers the snapshot of what it replaced. */
  restore(agent: AgentId, id: string, how: { readonly end: boolean }, signal: AbortSignal): Promise<SnapshotView>;
  diff(agent: AgentId, ids: readonly [string, string?], signal: AbortSignal): Promise<SnapshotDiff>;
  remove(agent: AgentId, id: string): Promise<void>;
}
