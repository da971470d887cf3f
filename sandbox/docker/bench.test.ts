import { expect, test } from "vitest";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import { benchRows, lacksOf } from "./bench.ts";
import { hostConfig } from "./shape.ts";
import type { HostConfig, Inspected } from "./words.ts";

const spec: SandboxSpec = {
  name: "beige-travel",
  labels: {},
  image: "beige-tiny:1",
  user: { uid: 20_001, gid: 20_001 },
  env: {},
  mounts: [],
  memoryBytes: 64 << 20,
  cpus: 1,
  pids: 64,
  tmpBytes: 1 << 20,
  network: "none",
  profile: "strict",
};

function made(change: Partial<HostConfig> = {}, more: object = {}): Inspected {
  return {
    HostConfig: { ...hostConfig(spec), ...change },
    Config: { User: "20001:20001", Cmd: ["init"] },
    Mounts: [{ Type: "bind", Source: "/srv/w", Destination: "/workspace", RW: true, Propagation: "rprivate" }],
    NetworkSettings: { Networks: { none: {} } },
    AppArmorProfile: "docker-default",
    ...more,
  } as unknown as Inspected;
}
const HOST = {
  SecurityOptions: ["name=apparmor", "name=seccomp,profile=default", "name=userns"],
  LiveRestoreEnabled: true,
  CgroupVersion: "2",
};
const warned = (info: Inspected, host = HOST): readonly string[] =>
  benchRows(info, host)
    .filter(({ state }) => state === "warning")
    .map(({ rule, title }) => `${rule} ${title}`);

test("a container as it is made has no warning on a host that gives everything", () => {
  expect(warned(made())).toStrictEqual([]);
  expect(new Set(benchRows(made(), HOST).map(({ rule }) => rule))).toStrictEqual(
    new Set([...Array.from({ length: 31 }, (_, i) => `5.${i + 1}`), "host"]),
  );
});

test.each([
  ["5.3 Linux capabilities", { CapAdd: ["CAP_SYS_ADMIN"] }],
  ["5.3 Linux capabilities", { CapDrop: null }],
  ["5.4 not privileged", { Privileged: true }],
  ["5.9 not the host's network", { NetworkMode: "host" }],
  ["5.10 memory limit", { Memory: 0 }],
  ["5.11 processor limit", { NanoCpus: 0 }],
  ["5.12 read-only root filesystem", { ReadonlyRootfs: false }],
  ["5.14 restarts are bounded", { RestartPolicy: { Name: "always" } }],
  ["5.15 own process space", { PidMode: "host" }],
  ["5.16 own shared memory", { IpcMode: "host" }],
  ["5.17 no devices of the host", { Devices: [{ PathOnHost: "/dev/sda" }] }],
  ["5.18 ulimits", { Ulimits: [] }],
  ["5.20 own host name", { UTSMode: "host" }],
  ["5.24 cgroup", { CgroupParent: "/other" }],
  ["5.28 process limit", { PidsLimit: null }],
  ["5.30 user mapping is the engine's", { UsernsMode: "host" }],
])("%s is warned of when %o", (line, change) => {
  expect(warned(made(change))).toStrictEqual([line]);
});

test("open ports, the engine's socket, system folders and root are warned of", () => {
  expect(warned(made({ PortBindings: { "22/tcp": [{}] } }))).toStrictEqual([
    "5.6 no SSH server within reach",
    "5.7 no privileged ports",
    "5.8 no open ports",
    "5.13 ports are bound to one address",
  ]);
  const mount = (Source: string): object => ({ Mounts: [{ Type: "bind", Source, Destination: "/x", RW: false, Propagation: "rprivate" }] });
  expect(warned(made({}, mount("/var/run/docker.sock")))).toStrictEqual(["5.31 no engine socket inside"]);
  expect(warned(made({}, mount("/etc")))).toStrictEqual(["5.5 no system folders of the host"]);
  expect(warned(made({}, { Config: { User: "0:0", Cmd: ["init"] } }))).toStrictEqual(["5.23 commands do not run as root"]);
  expect(warned(made({ SecurityOpt: [] }))).toStrictEqual([
    "5.2 SELinux or a profile of system calls",
    "5.21 seccomp profile",
    "5.25 no new privileges",
  ]);
});

test("what the host cannot give is named", () => {
  expect(lacksOf({ SecurityOptions: ["name=seccomp,profile=default"], CgroupVersion: "1", SwapLimit: false })).toStrictEqual([
    "AppArmor or SELinux",
    "user namespaces",
    "live-restore",
    "swap limit",
  ]);
  expect(lacksOf(HOST)).toStrictEqual([]);
});
