// Looks for planted values in everything that the product leaves behind, shows or hands out.
import { spawnSync } from "node:child_process";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { formsOf, NAMES, type Name, type Values } from "./values.ts";

export interface Finding {
  readonly value: Name;
  readonly place: string;
  readonly around: string;
}

/** Collects bytes by place, and tells which values are in them. */
export class Search {
  readonly #values: Values;
  readonly #forms: readonly (readonly [Name, readonly Buffer[]])[];
  readonly #found = new Map<string, Finding>();
  readonly places = new Set<string>();
  bytes = 0;

  constructor(values: Values) {
    this.#values = values;
    this.#forms = NAMES.map((name) => [name, formsOf(values[name]).map((form) => Buffer.from(form))]);
  }

  look(place: string, content: string | Buffer): void {
    const data = typeof content === "string" ? Buffer.from(content) : content;
    this.places.add(place);
    this.bytes += data.length;
    for (const [value, forms] of this.#forms) {
      for (const form of forms) {
        const at = data.indexOf(form);
        if (at < 0) continue;
        const around = data.subarray(Math.max(0, at - 100), at + form.length + 60).toString("latin1");
        this.#found.set(`${value} ${place}`, { value, place, around });
        break;
      }
    }
  }

  /** Every file below a folder; links are not followed. */
  folder(place: string, path: string): void {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return;
    if (stats.isFile()) return this.look(place, readFileSync(path));
    if (!stats.isDirectory()) return;
    for (const name of readdirSync(path)) {
      this.look(place, name);
      this.folder(place, join(path, name));
    }
  }

  get found(): readonly Finding[] {
    return [...this.#found.values()];
  }

  get values(): Values {
    return this.#values;
  }
}

const output = (command: string, ...args: readonly string[]): Buffer =>
  spawnSync(command, args, { maxBuffer: 1 << 30 }).stdout ?? Buffer.alloc(0);

interface Inspected {
  readonly Name: string;
  readonly State: { readonly Pid: number };
  readonly Mounts: readonly { readonly Source: string; readonly Destination: string }[];
}

/** What an agent can see of its container from inside, and what the engine shows of it. */
export function searchContainer(search: Search, id: string): void {
  const shown = output("docker", "inspect", id);
  const [info] = JSON.parse(shown.toString()) as readonly Inspected[];
  if (info === undefined) throw new Error(`no container ${id}`);
  const name = info.Name.replace(/^\/beige-/, "").replace(/-[0-9a-f]{6}$/, "");
  search.look(`inspect of ${name}`, shown);
  search.look(`inspect of ${name}`, output("docker", "logs", id));
  search.look(`inside ${name}`, output("docker", "export", id));
  for (const mount of info.Mounts) search.folder(`inside ${name}`, mount.Source);
  for (const pid of output("docker", "top", id, "-o", "pid").toString().match(/\d+/g) ?? []) {
    for (const file of ["environ", "cmdline"]) search.look(`inside ${name}`, tolerant(`/proc/${pid}/${file}`));
  }
}

/** Processes come and go. */
function tolerant(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

/** Command lines of the whole machine, but the one that is looking; and the environment of what the gateway started. */
export function searchProcesses(search: Search, gatewayPid: number): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    if (Number(pid) === process.pid) continue;
    search.look("command lines", tolerant(`/proc/${pid}/cmdline`));
    const parent = /^PPid:\s+(\d+)/m.exec(tolerant(`/proc/${pid}/status`).toString())?.[1];
    if (Number(parent) === gatewayPid) search.look("environment of the gateway's children", tolerant(`/proc/${pid}/environ`));
  }
}

/** BEIGE_HOME, by the sort of file. */
export function searchHome(search: Search, home: string): void {
  for (const name of readdirSync(home)) {
    const path = join(home, name);
    if (name.startsWith("state.db")) search.folder("store", path);
    else if (name === "logs") for (const file of readdirSync(path)) search.folder(`logs/${file.replace(/\..*/, "")}`, join(path, file));
    else if (name === "sessions")
      for (const agent of readdirSync(path)) search.folder(`session of ${agent.replace("default.", "")}`, join(path, agent));
    else if (name === "daemon.err") search.folder("standard error of the gateway", path);
    else search.folder(`home/${name}`, path);
  }
}
