// Turns what is wanted into Docker's words and what Docker shows back into ours, so that a diff of the two is exactly the drift.
import type { Mount, SandboxSeen, SandboxSpec, SandboxState } from "../../src/core/sandbox.ts";
import { deviations } from "./deviations.ts";
import { SECCOMP } from "./seccomp.ts";
import type { EngineFacts, HostConfig, ImageDefaults, Inspected } from "./words.ts";

const GUEST = "/beige/tool-client";
const PACKAGES_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];
/** Keeps what Docker has no place for; not one of the spec's labels. */
const WANTED = "beige.dev/wanted";

const userText = (spec: SandboxSpec): string => (spec.profile === "packages" ? "0:0" : `${spec.user.uid}:${spec.user.gid}`);

const mountSettings = (mount: Mount): object => ({
  Type: "bind",
  Source: mount.source,
  Target: mount.target,
  ReadOnly: mount.readOnly,
  // A mount below a read-only one would stay writable.
  ...(mount.readOnly ? { BindOptions: { Propagation: "rprivate", NonRecursive: true } } : { BindOptions: { Propagation: "rprivate" } }),
});

export const limits = (spec: Pick<SandboxSpec, "memoryBytes" | "cpus" | "pids">): HostConfig => ({
  Memory: spec.memoryBytes,
  MemorySwap: spec.memoryBytes,
  NanoCpus: Math.round(spec.cpus * 1e9),
  PidsLimit: spec.pids,
});

export const hostConfig = (spec: SandboxSpec): HostConfig => ({
  ...limits(spec),
  CapDrop: ["ALL"],
  CapAdd: spec.profile === "packages" ? PACKAGES_CAPABILITIES : [],
  SecurityOpt: ["no-new-privileges", `seccomp=${SECCOMP}`],
  Privileged: false,
  ReadonlyRootfs: spec.profile === "strict",
  Tmpfs: { "/tmp": `rw,nosuid,nodev,exec,size=${spec.tmpBytes}` },
  Ulimits: [
    { Name: "nofile", Soft: 4096, Hard: 4096 },
    { Name: "core", Soft: 0, Hard: 0 },
  ],
  // Docker's own init would share the agent's user and give away the streams of PID 1.
  Init: false,
  NetworkMode: spec.network === "none" ? "none" : "bridge",
  IpcMode: "private",
  // Unset, the engine copies the host's own name servers and domains into the sandbox.
  ...(spec.network === "none" ? { Dns: ["127.0.0.1"], DnsSearch: ["."] } : {}),
  LogConfig: { Type: "none", Config: {} },
  RestartPolicy: { Name: "no", MaximumRetryCount: 0 },
  Mounts: spec.mounts.map(mountSettings),
  ...(spec.runtime === undefined ? {} : { Runtime: spec.runtime }),
});

export function createOptions(spec: SandboxSpec, image: ImageDefaults): Readonly<Record<string, unknown>> {
  const wanted = { user: `${spec.user.uid}:${spec.user.gid}`, ...(spec.runtime === undefined ? {} : { runtime: spec.runtime }) };
  // A name without a value takes the image's variable away.
  const unset = image.env.map((entry) => entry.split("=", 1)[0] ?? "").filter((name) => name !== "" && !Object.hasOwn(spec.env, name));
  return {
    name: spec.name,
    Image: spec.image,
    Entrypoint: [GUEST],
    Cmd: ["init"],
    User: userText(spec),
    WorkingDir: "/workspace",
    Env: [...Object.entries(spec.env).map(([name, value]) => `${name}=${value}`), ...unset],
    Labels: { ...spec.labels, [WANTED]: JSON.stringify(wanted) },
    StopSignal: "SIGTERM",
    Healthcheck: { Test: ["NONE"] },
    Tty: false,
    // The way to the supervisor; it stays open when a gateway goes.
    OpenStdin: true,
    StdinOnce: false,
    HostConfig: hostConfig(spec),
  };
}

function readWanted(labels: Readonly<Record<string, string>>): { readonly user?: string; readonly runtime?: string } {
  try {
    const value: unknown = JSON.parse(labels[WANTED] ?? "{}");
    return value !== null && typeof value === "object" ? value : {};
  } catch {
    return {};
  }
}

function readUser(info: Inspected, profile: SandboxSpec["profile"], wanted: string | undefined): SandboxSpec["user"] {
  const text = profile === "packages" && info.Config.User === "0:0" && wanted !== undefined ? wanted : info.Config.User;
  const [uid = "0", gid = "0"] = text.split(":");
  const number = (part: string): number => (/^\d+$/.test(part) ? Number(part) : -1);
  return { uid: text === "" ? 0 : number(uid), gid: number(gid) };
}

/** A name without a value is one that was taken away. */
const readEnv = (entries: readonly string[] | null): Record<string, string> =>
  Object.fromEntries(
    (entries ?? [])
      .filter((entry) => entry.indexOf("=") > 0)
      .map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]),
  );

const readMounts = (info: Inspected, image: ImageDefaults): readonly Mount[] =>
  (info.Mounts ?? [])
    .filter((mount) => mount.Type !== "tmpfs" && !(mount.Type === "volume" && image.volumes.includes(mount.Destination)))
    .map((mount) => ({ source: mount.Source || (mount.Name ?? ""), target: mount.Destination, readOnly: !mount.RW }))
    .toSorted((a, b) => (a.target < b.target ? -1 : 1));

const readCpus = (host: HostConfig): number =>
  host.NanoCpus ? host.NanoCpus / 1e9 : host.CpuQuota && host.CpuQuota > 0 ? host.CpuQuota / (host.CpuPeriod || 100_000) : 0;

const readTmp = (host: HostConfig): number => Number(/(?:^|,)size=(\d+)(?:,|$)/.exec(host.Tmpfs?.["/tmp"] ?? "")?.[1] ?? 0);

const readLabels = (labels: Readonly<Record<string, string>>, image: ImageDefaults): Record<string, string> =>
  Object.fromEntries(Object.entries(labels).filter(([name, value]) => name !== WANTED && image.labels[name] !== value));

function readSpec(info: Inspected, image: ImageDefaults, { defaultRuntime }: EngineFacts): SandboxSpec {
  const host = info.HostConfig;
  const labels = info.Config.Labels ?? {};
  const wanted = readWanted(labels);
  const profile = host.ReadonlyRootfs ? "strict" : "packages";
  const networks = Object.keys(info.NetworkSettings?.Networks ?? {}).filter((name) => name !== "none");
  const runtime = host.Runtime !== undefined && (wanted.runtime !== undefined || host.Runtime !== defaultRuntime) ? host.Runtime : "";
  return {
    name: info.Name.replace(/^\//, ""),
    labels: readLabels(labels, image),
    image: info.Config.Image,
    user: readUser(info, profile, wanted.user),
    env: readEnv(info.Config.Env),
    mounts: readMounts(info, image),
    memoryBytes: host.Memory ?? 0,
    cpus: readCpus(host),
    pids: host.PidsLimit ?? 0,
    tmpBytes: readTmp(host),
    network: networks.length > 0 ? "open" : "none",
    profile,
    ...(runtime === "" ? {} : { runtime }),
  };
}

export function readSeen(info: Inspected, image: ImageDefaults, facts: EngineFacts): SandboxSeen {
  const spec = readSpec(info, image, facts);
  // What was connected or cut off since shows as `network`; the rest is held against how the container was made.
  const made = hostConfig({ ...spec, network: info.HostConfig.NetworkMode === "none" ? "none" : "open" });
  const hardening = deviations(info, { host: made, user: userText(spec), entry: [GUEST, "init"], swapLimit: facts.swapLimit });
  const state = info.State;
  const started = state.StartedAt !== "" && !state.StartedAt.startsWith("0001-");
  return {
    id: info.Id,
    state: state.Status as SandboxState,
    imageId: info.Image,
    spec: hardening.length > 0 ? { ...spec, hardening } : spec,
    oomKilled: state.OOMKilled,
    ...(started ? { startedAt: state.StartedAt } : {}),
    ...(started && !state.Running ? { exitCode: state.ExitCode } : {}),
  };
}
