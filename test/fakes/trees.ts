// Folders of manifests in memory, for the sim: a path has files, or is not there.
import { createHash } from "node:crypto";
import { BeigeError } from "../../src/core/errors.ts";
import type { Tree, Trees } from "../../src/core/source.ts";

export class FakeTrees implements Trees {
  /** Text by name, by path of the folder. They outlive the gateway. */
  readonly folders: Map<string, Readonly<Record<string, string>>>;
  readonly places = new Map<string, string>();
  /** Reads so far. */
  reads = 0;
  git: Tree["git"];
  constructor(folders: Map<string, Readonly<Record<string, string>>>) {
    this.folders = folders;
  }
  async read(path: string, options: Parameters<Trees["read"]>[1]): Promise<Tree> {
    this.reads += 1;
    const found = this.folders.get(path);
    if (found === undefined) throw new BeigeError("not_found", `folder ${path} does not exist`);
    const files = Object.entries(found).map(([name, text]) => ({ name, folder: path, text, vars: options.vars, files: {} }));
    const hash = createHash("sha256").update(JSON.stringify(found)).digest("hex");
    return { place: `${path} 1:1`, hash, files, problems: [], ...(this.git === undefined ? {} : { git: this.git }) };
  }
  watched(name: string): string | undefined {
    return this.places.get(name);
  }
  watch(name: string, _path: string, place: string): void {
    this.places.set(name, place);
  }
  unwatch(name: string): void {
    this.places.delete(name);
  }
  names(): readonly string[] {
    return [...this.places.keys()];
  }
}
