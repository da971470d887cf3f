// Lists where a container's protection is not as it was made: one short word each, for whatever the spec has no field for.
import type { HostConfig, Inspected } from "./words.ts";

/** Everything in HostConfig that could weaken or change a sandbox and that the spec's own fields do not show. */
const WATCHED = [
  "AutoRemove",
  "BlkioDeviceReadBps",
  "BlkioDeviceReadIOps",
  "BlkioDeviceWriteBps",
  "BlkioDeviceWriteIOps",
  "BlkioWeight",
  "CapAdd",
  "CapDrop",
  "CgroupParent",
  "CpuShares",
  "CpusetCpus",
  "CpusetMems",
  "DeviceCgroupRules",
  "DeviceRequests",
  "Devices",
  "Dns",
  "DnsOptions",
  "DnsSearch",
  "ExtraHosts",
  "GroupAdd",
  "Init",
  "IpcMode",
  "Links",
  "LogConfig",
  "MemoryReservation",
  "MemorySwap",
  "NetworkMode",
  "OomKillDisable",
  "OomScoreAdj",
  "PidMode",
  "PortBindings",
  "Privileged",
  "PublishAllPorts",
  "RestartPolicy",
  "SecurityOpt",
  "Sysctls",
  "Tmpfs",
  "UTSMode",
  "Ulimits",
  "UsernsMode",
  "VolumesFrom",
] as const;

/** One text for all the ways in which Docker writes the same: null, [], {}, "", 0 and false are nothing; order does not matter. */
function plain(value: unknown): string {
  if (value === undefined || value === null || value === "" || value === 0 || value === false) return "";
  if (Array.isArray(value)) return value.map(plain).toSorted().join(",");
  if (typeof value === "string") return value.replace(/^CAP_/, "");
  if (typeof value !== "object") return JSON.stringify(value);
  const parts = Object.entries(value).map(([key, inner]) => [key, plain(inner)] as const);
  return parts
    .filter(([, text]) => text !== "")
    .map(([key, text]) => `${key}=${text}`)
    .toSorted()
    .join(",");
}

const argv = (value: string | readonly string[] | undefined | null): readonly string[] =>
  value === undefined || value === null ? [] : typeof value === "string" ? [value] : value;

/** Sorted; empty when all is as made. */
export function deviations(
  info: Inspected,
  made: { readonly host: HostConfig; readonly user: string; readonly entry: readonly string[]; readonly swapLimit: boolean },
): readonly string[] {
  const found: string[] = [];
  for (const key of WATCHED) {
    const text = plain(info.HostConfig[key]);
    // A kernel that cannot limit swap makes -1 of any limit.
    if (key === "MemorySwap" && text === "-1" && !made.swapLimit) continue;
    // "default" is how the engine's command line asks for the bridge.
    const same = text === plain(made.host[key]) || (key === "NetworkMode" && text === "default" && made.host.NetworkMode === "bridge");
    if (!same) found.push(`${key}=${text.slice(0, 200)}`);
  }
  // Without these lists /proc and /sys of the host lie open; Docker fills them in unless the container is privileged.
  if ((info.HostConfig.MaskedPaths ?? []).length === 0) found.push("MaskedPaths=");
  if ((info.HostConfig.ReadonlyPaths ?? []).length === 0) found.push("ReadonlyPaths=");
  if (info.Config.User !== made.user && made.user === "0:0") found.push(`User=${info.Config.User}`);
  const entry = [...argv(info.Config.Entrypoint), ...argv(info.Config.Cmd)];
  if (entry.join("\0") !== made.entry.join("\0")) found.push(`Entrypoint=${entry.join(" ").slice(0, 200)}`);
  const usual = new Set(["none", "bridge"]);
  for (const name of Object.keys(info.NetworkSettings?.Networks ?? {})) if (!usual.has(name)) found.push(`network=${name}`);
  return found.toSorted();
}
