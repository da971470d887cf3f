// What observation of an agent answers: the world as it is now, without judgement.
import type { Folder } from "../../src/core/overlap.ts";
import type { DiskUse, FolderSeen } from "../../src/core/world.ts";
import type { SandboxSeen } from "../../src/core/sandbox.ts";
import type { WarmSandbox } from "../../src/core/seat.ts";
import type { ImagesSeen } from "./images.ts";

export interface PathSeen extends FolderSeen {
  /** As wanted, resolved against the manifest's folder. */
  readonly path: string;
}

/** A container of an earlier object of the same name, or of one that is no longer wanted. */
export interface Stray {
  readonly id: string;
  readonly name: string;
  readonly uid: string;
}

/** What an agent's annotation names and this store does not have. */
export interface AdoptSeen {
  /** Of a lost store of this home. */
  readonly takeable: readonly SandboxSeen[];
  /** Of a gateway on another home: left alone. */
  readonly elsewhere: readonly SandboxSeen[];
  /** Without labels that would make it an agent's: never touched. */
  readonly foreign?: SandboxSeen;
}

export interface AgentSeen {
  /** Containers with our store's label and this object's uid, and those that it takes over. */
  readonly containers: readonly SandboxSeen[];
  /** Containers with our store's label and this name, of another object. */
  readonly strays: readonly Stray[];
  readonly adopt?: AdoptSeen;
  /** Started sandboxes of its image that nobody has, while it never had one. */
  readonly warm?: readonly WarmSandbox[];
  /** The container that serves, as the store says. */
  readonly active?: string;
  /** The sandbox's user; unknown before the first container. */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** Id of the wanted image; undefined when the engine does not have it. */
  readonly imageId?: string;
  /** Of the wanted image where it is built, and builds that run. */
  readonly images?: ImagesSeen;
  readonly workspace?: PathSeen;
  readonly mounts: readonly PathSeen[];
  /** What the filesystem of the workspace has left. */
  readonly room?: { readonly freeBytes: number; readonly freeFiles: number };
  /** What the workspace took of it by the last look; only where the manifest limits that. */
  readonly used?: DiskUse;
  /** Real folders of other agents and of plugins that lie outside BEIGE_HOME. */
  readonly others: readonly Folder[];
  /** BEIGE_HOME with every link resolved. */
  readonly homeReal: string;
  readonly kit: { readonly seen?: string; readonly want?: string; readonly error?: string };
  readonly socket: { readonly listening: boolean; readonly hellos: readonly string[] };
  readonly calls: number;
  /** What the host cannot give to the serving container; absent while there is none. */
  readonly lacks?: readonly string[];
  /** Somebody waits for the sandbox to start. */
  readonly wanted: boolean;
  /** New calls wait for the new container. */
  readonly held: boolean;
  readonly sessions: number;
}

/** As PID 1 says it in its hello, and as Docker shows it. */
export const shortId = (id: string): string => id.slice(0, 12);
