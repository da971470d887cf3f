// Where a sandbox's folders lie on the host. Most have them by their agent's name; one that was made ready before its agent has a seat.
import type { AgentId } from "./call.ts";
import { launcherFolder, packageFolder, socketFolder, uid10, workspaceFolder } from "./paths.ts";
import type { SandboxSeen, SandboxSpec } from "./sandbox.ts";
import type { Kit } from "./world.ts";

/** What the label beige.dev/kind of a container says that was made before its agent; beige.dev/uid is then its seat. */
export const WARM = "Warm";
/** Sandboxes that wait for an agent, whatever host.yaml asks for: each holds a process of the engine and a little memory. */
export const WARM_MAX = 16;

type User = SandboxSpec["user"];

/** Seat of an agent by its uid, or the seat itself for one that nobody has; undefined for all that never had one. */
export type SeatOf = (uid: string) => string | undefined;

export interface AgentPlace {
  /** Mounted at /beige. */
  readonly sockets: string;
  /** Mounted at /tools/bin. */
  readonly launchers: string;
  /** Mounted at /tools/packages. */
  readonly packages: string;
  /** Mounted at /workspace unless the manifest names another. */
  readonly workspace: string;
}

export const seatFolder = (home: string, seat: string): string => `${home}/warm/${uid10(seat)}`;

/** The one answer to where an agent's folders are. */
export function placeOf(home: string, agent: AgentId, seatOf: SeatOf | undefined): AgentPlace {
  const seat = seatOf?.(agent.uid);
  if (seat === undefined)
    return {
      sockets: socketFolder(home, agent.uid),
      launchers: launcherFolder(home, agent),
      packages: packageFolder(home, agent),
      workspace: workspaceFolder(home, agent),
    };
  const folder = seatFolder(home, seat);
  return {
    sockets: socketFolder(home, seat),
    launchers: `${folder}/tools/bin`,
    packages: `${folder}/tools/packages`,
    workspace: `${folder}/workspace`,
  };
}

/** Whose sockets lie in run/: those of the seat, where there is one. */
export const socketUid = (uid: string, seatOf: SeatOf | undefined): string => seatOf?.(uid) ?? uid;

/** Names a seat that nobody has where an agent would be named. */
export const seatId = (seat: string): AgentId => ({ namespace: "", name: `warm-${uid10(seat)}`, uid: seat });

export interface Seat {
  readonly id: string;
  readonly holder?: AgentId;
}

/** What the store keeps of seats. A seat has one holder in its life. */
export interface Seats {
  readonly of: SeatOf;
  /** The agent's uid for that of its seat. */
  holder(seat: string): string | undefined;
  all(): readonly Seat[];
  make(seat: string): void;
  /** Whether the object has neither user nor container yet, nor ever had. */
  fresh(uid: string): boolean;
  /** In one transaction: the seat, its user and its container are the agent's, and the container serves. False, and nothing changed, when any of it is somebody's. */
  claim(seat: string, agent: AgentId, container: string): boolean;
  /** The seat is no more. */
  drop(seat: string): void;
}

/** A started sandbox that nobody has, with what the engine said of it last. */
export interface WarmSandbox {
  readonly seat: string;
  readonly user: User;
  readonly box: SandboxSeen;
}

export interface WarmClaim {
  readonly seat: string;
  readonly container: string;
  readonly agent: AgentId;
  readonly kit: Kit;
  readonly limits: Pick<SandboxSpec, "memoryBytes" | "cpus" | "pids">;
}

/** Of one entry of host.yaml, and why it has fewer than it should. */
export interface WarmLevel {
  readonly image: string;
  readonly wanted: number;
  readonly ready: number;
  readonly problem?: string;
}

/** The pool as controllers see it. */
export interface Warm {
  /** Those that can be had now, of this image. */
  ready(image: string): readonly WarmSandbox[];
  /** Limits and launchers first, the record last: before it the sandbox is nobody's, after it the agent's, and it serves. Nothing happens when somebody was quicker. */
  claim(claim: WarmClaim, signal: AbortSignal): Promise<void>;
  /** The end of a seat whose containers are gone: a workspace that is kept moves to where the agent's name leads. Idempotent. */
  leave(agent: AgentId): Promise<void>;
  levels(): readonly WarmLevel[];
  /** Ids of containers that wait for an agent. */
  waiting(): readonly string[];
}
