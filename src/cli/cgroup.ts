// What a container uses, from the kernel's own files: two small reads, no question to the engine. Nothing where they are not, or not here.
import { readFileSync } from "node:fs";

const ROOT = "/sys/fs/cgroup";

export interface Used {
  /** Without what the kernel would give back. */
  readonly memoryBytes: number;
  /** Since the container began. */
  readonly cpuMs: number;
}

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
};

const field = (text: string | undefined, name: string): number => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text ?? "")?.[1] ?? 0);

/** Docker names the groups after the driver: with systemd, or with its own. */
const placesOf = (id: string): readonly string[] => [`system.slice/docker-${id}.scope`, `docker/${id}`];

/** By the whole id of a container. */
export function usedBy(id: string, root = ROOT): Used | undefined {
  if (!/^[0-9a-f]{64}$/.test(id)) return undefined;
  for (const place of placesOf(id)) {
    const two = read(`${root}/${place}/memory.current`);
    if (two !== undefined) {
      const idle = field(read(`${root}/${place}/memory.stat`), "inactive_file");
      return { memoryBytes: Math.max(0, Number(two) - idle), cpuMs: field(read(`${root}/${place}/cpu.stat`), "usage_usec") / 1000 };
    }
    const one = read(`${root}/memory/${place}/memory.usage_in_bytes`);
    if (one !== undefined) {
      const idle = field(read(`${root}/memory/${place}/memory.stat`), "total_inactive_file");
      return { memoryBytes: Math.max(0, Number(one) - idle), cpuMs: Number(read(`${root}/cpuacct/${place}/cpuacct.usage`) ?? 0) / 1e6 };
    }
  }
  return undefined;
}

/** The only container below the groups whose id begins so; ids are shown short. */
export function wholeId(short: string, names: readonly string[]): string | undefined {
  const found = names
    .flatMap((name) => /^(?:docker-)?([0-9a-f]{64})(?:\.scope)?$/.exec(name)?.[1] ?? [])
    .filter((id) => id.startsWith(short));
  return short.length >= 12 && found.length === 1 ? found[0] : undefined;
}
