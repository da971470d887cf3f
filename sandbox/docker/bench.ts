// Section 5 of the CIS benchmark for Docker, held against one container as the engine shows it, and what its host can give. Pure.
import { engineLacks } from "../../src/core/lacks.ts";
import type { SandboxCheck } from "../../src/core/sandbox.ts";
import type { HostConfig, Info, Inspected } from "./words.ts";

const SENSITIVE = ["/", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sys", "/usr", "/var", "/var/lib", "/var/run"];
const ENGINE_SOCKET = /(^|\/)(docker|containerd|podman|crio)\.sock$/;
const PACKAGES = new Set(["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]);

type Rule = readonly [rule: string, title: string, good: boolean, why: string, otherwise: string, fix?: string];

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const textsOf = (value: unknown): readonly string[] => listOf(value).filter((each) => typeof each === "string");
const plain = (value: unknown): string => (typeof value === "string" ? value : "");
const sized = (value: unknown): boolean => typeof value === "number" && value > 0;
const capabilities = (host: HostConfig, key: "CapAdd" | "CapDrop"): readonly string[] =>
  textsOf(host[key]).map((name) => name.replace(/^CAP_/, ""));

const NEW_CONTAINER = "beige rollout restart agent/NAME makes a new container";

function processRules(info: Inspected): readonly Rule[] {
  const host = info.HostConfig;
  const security = textsOf(host["SecurityOpt"]);
  const added = capabilities(host, "CapAdd");
  const bare = capabilities(host, "CapDrop").includes("ALL") && added.every((name) => PACKAGES.has(name));
  const profile = info.AppArmorProfile ?? "";
  const armour = profile !== "" && profile !== "unconfined";
  const seccomp = security.find((each) => each.startsWith("seccomp="));
  const filtered = seccomp !== undefined && seccomp !== "seccomp=unconfined";
  const fresh = security.some((each) => /^no-new-privileges(:true|=true)?$/.test(each));
  const kept = added.length === 0 ? "all are dropped" : `all but ${added.join(", ")} are dropped`;
  return [
    ["5.1", "AppArmor profile", armour, `profile ${profile}`, "none; what else is listed here has to hold", "use a host with AppArmor"],
    [
      "5.2",
      "SELinux or a profile of system calls",
      filtered,
      "beige's seccomp profile stands in its place",
      "neither is set",
      NEW_CONTAINER,
    ],
    ["5.3", "Linux capabilities", bare, kept, `more than beige gives: ${added.join(", ") || "the engine's defaults"}`, NEW_CONTAINER],
    ["5.4", "not privileged", host["Privileged"] !== true, "it is not", "it is privileged: it has the host", NEW_CONTAINER],
    [
      "5.21",
      "seccomp profile",
      filtered,
      "beige's own: no io_uring, keyrings, raw sockets, new namespaces",
      "system calls are not filtered",
      NEW_CONTAINER,
    ],
    ["5.25", "no new privileges", fresh, "setuid programs gain nothing", "setuid programs give their owner's power", NEW_CONTAINER],
  ];
}

function limitRules({ HostConfig: host }: Inspected): readonly Rule[] {
  const limits = listOf(host["Ulimits"]).length > 0;
  const restart = plain((host["RestartPolicy"] as { Name?: unknown } | undefined)?.Name);
  return [
    ["5.10", "memory limit", sized(host.Memory), `${Math.round((host.Memory ?? 0) / 2 ** 20)} MiB`, "none", "set sandbox.resources.memory"],
    [
      "5.11",
      "processor limit",
      sized(host.NanoCpus) || sized(host.CpuQuota) || sized(host["CpuShares"]),
      "set",
      "none",
      "set sandbox.resources.cpus",
    ],
    [
      "5.14",
      "restarts are bounded",
      restart === "" || restart === "no",
      "the gateway restarts it, with a pause of 10 s",
      `restart policy ${restart}`,
      NEW_CONTAINER,
    ],
    ["5.18", "ulimits", limits, "open files and core dumps are limited", "the engine's defaults", NEW_CONTAINER],
    ["5.24", "cgroup", plain(host["CgroupParent"]) === "", "the engine's own", `below ${plain(host["CgroupParent"])}`, NEW_CONTAINER],
    [
      "5.28",
      "process limit",
      sized(host.PidsLimit),
      `${host.PidsLimit ?? 0} processes`,
      "none: a fork bomb takes the host",
      "set sandbox.resources.pids",
    ],
  ];
}

function folderRules(info: Inspected): readonly Rule[] {
  const host = info.HostConfig;
  const mounts = info.Mounts ?? [];
  const open = mounts.filter(({ Source }) => SENSITIVE.includes(Source)).map(({ Source }) => Source);
  const shared = mounts.filter((mount) => /shared|slave/.test(plain((mount as { Propagation?: unknown }).Propagation)));
  const sockets = mounts.filter(({ Source }) => ENGINE_SOCKET.test(Source)).map(({ Source }) => Source);
  const devices = [...listOf(host["Devices"]), ...listOf(host["DeviceRequests"]), ...listOf(host["DeviceCgroupRules"])].length;
  const changeable = "it can be changed from inside; profile packages is made for that";
  return [
    ["5.5", "no system folders of the host", open.length === 0, "none", open.join(", "), "remove the mount"],
    [
      "5.12",
      "read-only root filesystem",
      host.ReadonlyRootfs === true,
      "only /workspace and /tmp can be written",
      changeable,
      "set sandbox.profile: strict",
    ],
    ["5.17", "no devices of the host", devices === 0, "none", `${devices} devices`, NEW_CONTAINER],
    ["5.19", "mounts do not propagate", shared.length === 0, "all are private", `${shared.length} propagate`, NEW_CONTAINER],
    [
      "5.31",
      "no engine socket inside",
      sockets.length === 0,
      "none",
      `${sockets.join(", ")}: whoever has it has the host`,
      "remove the mount",
    ],
  ];
}

function networkRules(info: Inspected): readonly Rule[] {
  const host = info.HostConfig;
  const networks = Object.keys(info.NetworkSettings?.Networks ?? {}).filter((name) => name !== "none");
  const ports = Object.keys((host["PortBindings"] as object | undefined) ?? {});
  const low = ports.filter((port) => Number.parseInt(port, 10) < 1024);
  const published = ports.length > 0 || host["PublishAllPorts"] === true;
  const own = (mode: unknown): boolean => mode !== "host";
  const bridge = networks.includes("bridge");
  return [
    ["5.6", "no SSH server within reach", !published, "no port leads in", "a port leads in", NEW_CONTAINER],
    ["5.7", "no privileged ports", low.length === 0, "none", low.join(", "), NEW_CONTAINER],
    ["5.8", "no open ports", !published, "none", ports.join(", ") || "all", NEW_CONTAINER],
    [
      "5.9",
      "not the host's network",
      own(host.NetworkMode),
      networks.length === 0 ? "no network at all" : networks.join(", "),
      "it is the host's",
      NEW_CONTAINER,
    ],
    ["5.13", "ports are bound to one address", !published, "there are none", "published ports", NEW_CONTAINER],
    [
      "5.29",
      "not the engine's default bridge",
      !bridge,
      "not connected to it",
      "other containers and ports of the host are within reach",
      "set sandbox.network.mode: allowlist",
    ],
  ];
}

function spaceRules(info: Inspected): readonly Rule[] {
  const host = info.HostConfig;
  const apart = (key: string): boolean => !/^(host|container:|shareable)/.test(plain(host[key]));
  return [
    ["5.15", "own process space", apart("PidMode"), "it sees its own processes", "it sees others'", NEW_CONTAINER],
    ["5.16", "own shared memory", apart("IpcMode"), "private", plain(host["IpcMode"]), NEW_CONTAINER],
    ["5.20", "own host name", apart("UTSMode"), "it has its own", "the host's", NEW_CONTAINER],
    [
      "5.30",
      "user mapping is the engine's",
      plain(host["UsernsMode"]) === "",
      "not switched off",
      plain(host["UsernsMode"]),
      NEW_CONTAINER,
    ],
  ];
}

/** Rules about how the engine is used, which the gateway keeps by the way it works. */
function gatewayRules(info: Inspected): readonly Rule[] {
  const user = info.Config.User;
  const root = user === "" || /^(0|root)(:|$)/.test(user);
  const ours = info.Config.Cmd?.[0] === "init";
  return [
    [
      "5.22",
      "commands are not privileged",
      ours,
      "they are children of PID 1 and have its limits",
      "they go through docker exec",
      NEW_CONTAINER,
    ],
    ["5.23", "commands do not run as root", !root, `user ${user}`, "root, with five capabilities", "set sandbox.profile: strict"],
    [
      "5.26",
      "health is watched",
      ours,
      "PID 1 keeps a connection to the gateway; silence for 60 s ends in a restart",
      "nobody watches",
      NEW_CONTAINER,
    ],
    ["5.27", "the image is the tag's", true, "another image under the tag is shown as drift", ""],
  ];
}

/** What this host cannot give to any sandbox. */
export const lacksOf: (info: Info) => readonly string[] = engineLacks;

const DAEMON = (line: string): string => `/etc/docker/daemon.json: ${line}`;

function hostRules(info: Info): readonly Rule[] {
  const lacks = new Set(lacksOf(info));
  const has = (what: string): boolean => !lacks.has(what);
  const limited = has("memory limit") && has("process limit") && has("swap limit");
  return [
    [
      "host",
      "AppArmor or SELinux",
      has("AppArmor or SELinux"),
      "there",
      "absent: one layer less",
      "a kernel with AppArmor, and apt-get install apparmor",
    ],
    ["host", "seccomp", has("seccomp"), "there", "absent: system calls are not filtered", "a kernel and an engine with seccomp"],
    [
      "host",
      "root inside is nobody outside",
      has("user namespaces"),
      "user namespaces are on",
      "user namespaces are off; sandboxes of profile strict do not run as root anyway",
      DAEMON('"userns-remap": "default"'),
    ],
    [
      "host",
      "live-restore",
      has("live-restore"),
      "commands outlive a restart of the engine",
      "commands end with the engine and are told as lost",
      DAEMON('"live-restore": true'),
    ],
    [
      "host",
      `cgroup v${info.CgroupVersion ?? "1"}`,
      limited,
      "memory, swap and processes can be limited",
      "a limit is missing",
      "boot with cgroup_enable=memory swapaccount=1",
    ],
  ];
}

const toCheck = ([rule, title, good, why, otherwise, fix]: Rule): SandboxCheck =>
  good ? { rule, title, state: "ok", why } : { rule, title, state: "warning", why: otherwise, ...(fix === undefined ? {} : { fix }) };

const minor = ({ rule }: SandboxCheck): number => Number(rule.split(".")[1] ?? 99);

/** In the order of the benchmark, the host's facts last. */
export function benchRows(info: Inspected, host: Info): readonly SandboxCheck[] {
  const rules = [processRules, limitRules, folderRules, networkRules, spaceRules, gatewayRules].flatMap((make) => make(info));
  return [...rules, ...hostRules(host)].map(toCheck).toSorted((a, b) => minor(a) - minor(b));
}
