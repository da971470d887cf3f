import fc from "fast-check";
import { expect, test } from "vitest";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import { createOptions, readSeen } from "./shape.ts";
import type { HostConfig, ImageDefaults, Inspected } from "./words.ts";

const FACTS = { defaultRuntime: "runc", swapLimit: true };
const IMAGE: ImageDefaults = { env: ["PATH=/image", "LEAK=1", "ODD"], labels: { vendor: "x" }, volumes: ["/data"] };

/** What an engine shows of a container that was made with these options: its own defaults filled in, the image's merged. */
function shown(options: Readonly<Record<string, unknown>>, change: Partial<HostConfig> = {}): Inspected {
  const host = options["HostConfig"] as HostConfig & { Mounts: readonly { Source: string; Target: string; ReadOnly: boolean }[] };
  const env = options["Env"] as readonly string[];
  const has = (name: string): boolean => env.some((entry) => entry.split("=")[0] === name);
  return {
    Id: "id",
    Name: `/${options["name"] as string}`,
    Image: "sha256:1",
    State: {
      Status: "running",
      Running: true,
      Paused: false,
      OOMKilled: false,
      ExitCode: 0,
      Error: "",
      StartedAt: "2026-01-01T00:00:00Z",
      FinishedAt: "",
    },
    HostConfig: {
      ...host,
      CapAdd: (host["CapAdd"] as string[]).map((name) => `CAP_${name}`),
      Runtime: host.Runtime ?? "runc",
      Devices: [],
      Binds: null,
      OomKillDisable: null,
      ShmSize: 67_108_864,
      MaskedPaths: ["/proc/kcore"],
      ReadonlyPaths: ["/proc/sys"],
      ...change,
    },
    Mounts: [
      ...host.Mounts.map((mount) => ({ Type: "bind", Source: mount.Source, Destination: mount.Target, RW: !mount.ReadOnly })).toReversed(),
      { Type: "volume", Name: "v", Source: "/var/v", Destination: "/data", RW: true },
    ],
    Config: {
      User: options["User"] as string,
      Env: [...env, ...IMAGE.env.filter((entry) => !has(entry.split("=")[0] ?? ""))],
      Cmd: options["Cmd"] as readonly string[],
      Entrypoint: options["Entrypoint"] as readonly string[],
      Image: options["Image"] as string,
      Labels: { ...IMAGE.labels, ...(options["Labels"] as Record<string, string>) },
    },
    NetworkSettings: { Networks: { [host.NetworkMode ?? ""]: {} } },
  };
}

const plain = { noNullPrototype: true };
const word = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/);
const anySpec: fc.Arbitrary<SandboxSpec> = fc.record(
  {
    name: word,
    labels: fc.dictionary(
      word.map((text) => `beige.dev/${text}1`),
      fc.string({ maxLength: 8 }),
      plain,
    ),
    image: word,
    user: fc.record({ uid: fc.nat({ max: 70_000 }), gid: fc.nat({ max: 70_000 }) }),
    env: fc.dictionary(
      word.map((text) => text.toUpperCase()),
      fc.string({ maxLength: 12 }),
      plain,
    ),
    mounts: fc
      .uniqueArray(
        fc.record({ source: word.map((text) => `/s/${text}`), target: word.map((text) => `/t/${text}`), readOnly: fc.boolean() }),
        {
          selector: (mount) => mount.target,
          maxLength: 5,
        },
      )
      .map((mounts) => mounts.toSorted((a, b) => (a.target < b.target ? -1 : 1))),
    memoryBytes: fc.integer({ min: 6 << 20, max: 2 ** 40 }),
    cpus: fc.integer({ min: 1, max: 6400 }).map((hundredths) => hundredths / 100),
    pids: fc.integer({ min: 1, max: 100_000 }),
    tmpBytes: fc.integer({ min: 4096, max: 2 ** 40 }),
    network: fc.constantFrom("none", "open"),
    profile: fc.constantFrom("strict", "packages"),
    runtime: fc.constantFrom("runc", "runsc"),
  },
  { requiredKeys: ["name", "labels", "image", "user", "env", "mounts", "memoryBytes", "cpus", "pids", "tmpBytes", "network", "profile"] },
);

test("whatever spec a container is made from, it is seen as that spec again", () => {
  fc.assert(
    fc.property(anySpec, (wanted) => {
      expect(readSeen(shown(createOptions(wanted, IMAGE)), IMAGE, FACTS).spec).toEqual(wanted);
    }),
  );
});

const spec: SandboxSpec = {
  name: "n",
  labels: {},
  image: "i",
  user: { uid: 5, gid: 6 },
  env: {},
  mounts: [],
  memoryBytes: 1 << 30,
  cpus: 2,
  pids: 100,
  tmpBytes: 1 << 20,
  network: "none",
  profile: "strict",
};
const changed = (change: Partial<HostConfig>, facts = FACTS): SandboxSpec =>
  readSeen(shown(createOptions(spec, IMAGE), change), IMAGE, facts).spec;

test("each weakening shows, in its field or in the list of deviations", () => {
  const cases: readonly [Partial<HostConfig>, Partial<SandboxSpec>][] = [
    [{ Privileged: true, MaskedPaths: null }, { hardening: ["MaskedPaths=", "Privileged=true"] }],
    [{ CapAdd: ["CAP_SYS_ADMIN"] }, { hardening: ["CapAdd=SYS_ADMIN"] }],
    [{ CapDrop: null }, { hardening: ["CapDrop="] }],
    [{ SecurityOpt: ["no-new-privileges", "seccomp=unconfined"] }, { hardening: ["SecurityOpt=no-new-privileges,seccomp=unconfined"] }],
    [{ PidMode: "host" }, { hardening: ["PidMode=host"] }],
    [{ Devices: [{ PathOnHost: "/dev/sda" }] }, { hardening: ["Devices=PathOnHost=/dev/sda"] }],
    [{ Init: true }, { hardening: ["Init=true"] }],
    [{ MemorySwap: -1 }, { hardening: ["MemorySwap=-1"] }],
    [{ LogConfig: { Type: "json-file", Config: {} } }, { hardening: ["LogConfig=Type=json-file"] }],
    [{ NanoCpus: 0, CpuQuota: 50_000 }, { cpus: 0.5 }],
    [{ PidsLimit: null }, { pids: 0 }],
    [{ Memory: 0, MemorySwap: 0 }, { memoryBytes: 0 }],
    [{ Runtime: "other" }, { runtime: "other" }],
    [{ Tmpfs: null }, { tmpBytes: 0, hardening: ["Tmpfs="] }],
  ];
  for (const [change, wanted] of cases) {
    const seen = changed(change);
    expect({ change, ...seen }).toMatchObject({ change, ...wanted });
  }
});

test("a kernel that cannot limit swap is no deviation", () => {
  expect(changed({ MemorySwap: -1 }, { ...FACTS, swapLimit: false }).hardening).toBeUndefined();
  expect(changed({ MemorySwap: 2 ** 40 }, { ...FACTS, swapLimit: false }).hardening).toStrictEqual(["MemorySwap=1099511627776"]);
});
