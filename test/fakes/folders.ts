// Host folders and kits in memory; they outlive a gateway as the real ones do.
import { fingerprint } from "../../src/core/fingerprint.ts";
import type { AgentId } from "../../src/core/call.ts";
import type { SeatOf } from "../../src/core/seat.ts";
import type { FolderSeen, Kit, Kits, Workspaces } from "../../src/core/world.ts";
import type { Faults } from "./faults.ts";

export interface FakeFolder {
  readonly uid: number;
  readonly gid: number;
}

export class FakeFolders implements Workspaces {
  readonly folders = new Map<string, FakeFolder>();
  /** From a path to where its link leads. */
  readonly links = new Map<string, string>();
  readonly #faults: Faults;

  constructor(faults: Faults) {
    this.#faults = faults;
  }

  #real(path: string): string {
    for (const [from, to] of this.links) if (path === from || path.startsWith(`${from}/`)) return this.#real(to + path.slice(from.length));
    return path;
  }

  async seen(path: string): Promise<FolderSeen> {
    await Promise.resolve();
    const real = this.#real(path);
    const folder = this.folders.get(real);
    return { real, exists: folder !== undefined, folder: folder !== undefined, uid: folder?.uid ?? 0, gid: folder?.gid ?? 0 };
  }

  async create(path: string, owner: FakeFolder): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`folder ${path}`, () => {
      const real = this.#real(path);
      if (!this.folders.has(real)) this.folders.set(real, { uid: owner.uid, gid: owner.gid });
    });
  }

  async give(path: string, owner: FakeFolder): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`give folder ${path}`, () => void this.folders.set(this.#real(path), { uid: owner.uid, gid: owner.gid }));
  }

  /** The folders of seats, as the real ones are. */
  readonly seats = {
    point: async (usual: string, workspace: string): Promise<void> => {
      await Promise.resolve();
      if (!this.folders.has(usual)) this.links.set(usual, workspace);
    },
    bringHome: async (usual: string, workspace: string): Promise<void> => {
      await Promise.resolve();
      this.#faults.effect(`bring ${workspace} home`, () => {
        this.links.delete(usual);
        const folder = this.folders.get(workspace);
        if (folder === undefined) return;
        this.folders.delete(workspace);
        this.folders.set(usual, folder);
      });
    },
    tidy: async (): Promise<void> => Promise.resolve(),
    clear: async (folder: string): Promise<void> => {
      await Promise.resolve();
      for (const known of this.folders.keys()) if (known === folder || known.startsWith(`${folder}/`)) this.folders.delete(known);
    },
  };

  async remove(path: string): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`remove folder ${path}`, () => {
      const real = this.#real(path);
      for (const known of this.folders.keys()) if (known === real || known.startsWith(`${real}/`)) this.folders.delete(known);
    });
  }
}

export class FakeKits implements Kits {
  readonly kits = new Map<string, Kit>();
  /** Of the store that is open. */
  seatOf: SeatOf | undefined;
  readonly #faults: Faults;

  constructor(faults: Faults) {
    this.#faults = faults;
  }

  #key(agent: AgentId): string {
    const seat = this.seatOf?.(agent.uid);
    return seat === undefined ? `${agent.namespace}.${agent.name} ${agent.uid}` : `seat ${seat}`;
  }

  async seen(agent: AgentId): Promise<string | undefined> {
    await Promise.resolve();
    const kit = this.kits.get(this.#key(agent));
    return kit === undefined ? undefined : fingerprint(kit);
  }

  async hash(kit: Kit): Promise<string> {
    await Promise.resolve();
    return fingerprint(kit);
  }

  async write(agent: AgentId, kit: Kit): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`kit ${agent.name}`, () => void this.kits.set(this.#key(agent), kit));
  }

  async remove(agent: AgentId): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`remove kit ${agent.name}`, () => void this.kits.delete(this.#key(agent)));
  }
}
