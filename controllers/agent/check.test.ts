import { expect, test } from "vitest";
import type { View } from "../../src/core/kind.ts";
import type { AgentSpec, HostPolicy } from "../../schemas/types.ts";
import type { Agent, Plugin, Ref, Resource } from "../../src/core/resource.ts";
import { refKey, refOf } from "../../src/core/resource.ts";
import { agentKind } from "./index.ts";

const HOME = "/var/lib/beige-home";

function agentOf(name: string, spec: Record<string, unknown> = {}, sandbox: Record<string, unknown> = {}): Agent {
  const whole = {
    model: { provider: "echo", id: "echo", thinking: "off" },
    fallbacks: [],
    instructions: "",
    coreTools: ["read", "write", "patch", "exec"],
    tools: [],
    plugins: {},
    workspace: { onDelete: "retain", shared: false },
    update: { strategy: "drain", drainTimeoutSeconds: 60 },
    suspend: false,
    ...spec,
    sandbox: {
      image: "i",
      profile: "strict",
      path: "/bin",
      resources: { memory: "1Gi", cpus: 1, pids: 64, tmp: "1Mi" },
      network: { mode: "none" },
      mounts: [],
      env: {},
      ...sandbox,
    },
  } as unknown as AgentSpec;
  return {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: {
      name,
      namespace: "default",
      uid: `0000${name}`,
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: "2026-01-01T00:00:00Z",
    },
    spec: whole,
  };
}

function pluginOf(name: string, tools: readonly string[] | undefined, source: Plugin["spec"]["source"] = { builtin: name }): Plugin {
  return {
    apiVersion: "beige.dev/v1",
    kind: "Plugin",
    metadata: { name, namespace: "", uid: name, resourceVersion: "1", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { source, config: {}, secrets: {} },
    ...(tools === undefined ? {} : { status: { observedGeneration: 1, conditions: [], observed: { tools } } }),
  };
}

interface Around {
  readonly objects?: readonly Resource[];
  readonly origins?: Readonly<Record<string, string>>;
  readonly paths?: Partial<HostPolicy["paths"]>;
  readonly home?: string;
}

function viewOf({ objects = [], origins = {}, paths = {}, home = HOME }: Around): View {
  return {
    now: 0,
    store: "store",
    home,
    defaultHome: true,
    get: (ref: Ref) => objects.find((one) => refKey(refOf(one)) === refKey(ref)),
    list: (kind) => objects.filter((one) => one.kind === kind),
    origin: (ref) => origins[ref.name],
    host: { secrets: [], paths: { mounts: [], workspaces: [], plugins: [], ...paths } },
  };
}

const problems = (agent: Agent, around: Around = {}) =>
  (agentKind.check?.(agent, viewOf(around)) ?? []).map(({ path, message, hint }) => ({ path, message, hint }));

test("an agent without folders and tools of its own has no problem", () => {
  expect(problems(agentOf("travel"))).toEqual([]);
});

test("a tool that no plugin has is named, with the nearest one", () => {
  expect(problems(agentOf("travel", { tools: ["memroy"] }), { objects: [pluginOf("memory", ["memory"])] })).toEqual([
    { path: "/spec/tools/0", message: "tool 'memroy' is in no plugin", hint: 'did you mean "memory"?' },
  ]);
  expect(problems(agentOf("travel", { tools: ["zzz"] }), { objects: [pluginOf("memory", ["memory", "recall"])] })[0]?.hint).toBe(
    "known tools: memory, recall",
  );
});

test("a tool of a plugin that nobody has looked at yet is accepted and waited for", () => {
  expect(problems(agentOf("travel", { tools: ["memory", "fresh/x"] }), { objects: [pluginOf("fresh", undefined)] })).toEqual([]);
});

test("a tool that two plugins have needs its plugin's name", () => {
  const objects = [pluginOf("a", ["find"]), pluginOf("b", ["find"])];
  expect(problems(agentOf("travel", { tools: ["find"] }), { objects })).toEqual([
    { path: "/spec/tools/0", message: "tool 'find' is in plugins a, b", hint: "write a/find or b/find" },
  ]);
  expect(problems(agentOf("travel", { tools: ["a/find"] }), { objects })).toEqual([]);
  expect(problems(agentOf("travel", { tools: ["a/find", "b/find"] }), { objects })[0]?.message).toBe(
    "tools 'a/find' and 'b/find' are one command 'find'",
  );
  expect(problems(agentOf("travel", { tools: ["a/fnid"] }), { objects })[0]).toMatchObject({
    message: "plugin 'a' has no tool 'fnid'",
    hint: 'did you mean "find"?',
  });
});

test("a core tool's name is not a plugin tool", () => {
  expect(problems(agentOf("travel", { tools: ["exec"] }))[0]?.message).toBe("'exec' has the name of a core tool");
});

test("what an agent refers to is found in its manifest alone", () => {
  const agent = agentOf("travel", { fallbacks: [{ provider: "other", id: "m" }], tools: ["git/log"], plugins: { git: {} } });
  expect(agentKind.needs(agent).map((need) => [need.ref.kind, need.ref.name, need.path])).toEqual([
    ["Provider", "echo", "/spec/model/provider"],
    ["Provider", "other", "/spec/fallbacks/0/provider"],
    ["Plugin", "git", "/spec/tools/0"],
    ["Plugin", "git", "/spec/plugins/git"],
  ]);
});

test("a mount outside the roots of host.yaml is refused with the line that allows it", () => {
  const agent = agentOf("travel", {}, { mounts: [{ source: "/data/x", target: "/data", readOnly: true }] });
  expect(problems(agent)).toEqual([
    {
      path: "/spec/sandbox/mounts/0/source",
      message: "mount /data/x is not below a root that host.yaml allows",
      hint: "the operator allows it in host.yaml: paths: {mounts: [/data/x]}",
    },
  ]);
  expect(problems(agent, { paths: { mounts: ["/data"] } })).toEqual([]);
  expect(problems(agent, { paths: { mounts: ["/dat"] } })).toHaveLength(1);
});

test.each([
  "/",
  "/etc",
  "/proc",
  "/sys/fs",
  "/var/run/docker.sock",
  "/root",
  "/home/me",
  "/home/me/.ssh",
  HOME,
  `${HOME}/run`,
  "/data/../etc",
])("the mount of %s is refused whatever host.yaml says", (source) => {
  const agent = agentOf("travel", {}, { mounts: [{ source, target: "/data", readOnly: true }] });
  expect(problems(agent, { paths: { mounts: ["/"] } }).length).toBeGreaterThan(0);
});

test.each([
  ["the other's workspace", { workspace: { path: "/homes/a", onDelete: "retain", shared: false } }, {}],
  ["a folder above it", { workspace: { path: "/homes", onDelete: "retain", shared: false } }, {}],
  ["a folder below it", { workspace: { path: "/homes/a/deep", onDelete: "retain", shared: false } }, {}],
  ["it, as a mount", {}, { mounts: [{ source: "/homes/a", target: "/data", readOnly: false }] }],
  ["it, by dots", { workspace: { path: "/homes/b/../a", onDelete: "retain", shared: false } }, {}],
])("an agent may not have %s", (_name, spec, sandbox) => {
  const other = agentOf("other", { workspace: { path: "/homes/a", onDelete: "retain", shared: false } });
  const found = problems(agentOf("travel", spec, sandbox), { objects: [other], paths: { workspaces: ["/homes"], mounts: ["/homes"] } });
  expect(found.map((one) => one.message).join()).toMatch(/overlaps/);
});

test("two agents that both say so share one workspace", () => {
  const shared = { workspace: { path: "/homes/a", onDelete: "retain", shared: true } };
  expect(problems(agentOf("travel", shared), { objects: [agentOf("other", shared)], paths: { workspaces: ["/homes"] } })).toEqual([]);
});

test("a writable folder may not hold a plugin's code", () => {
  const spec = { workspace: { path: "/shelf", onDelete: "retain", shared: false } };
  const objects = [pluginOf("git", ["git"], { path: "/shelf/plugins/git" })];
  expect(problems(agentOf("travel", spec), { objects, paths: { workspaces: ["/shelf"] } })[0]?.message).toMatch(/overlaps.*plugin\/git/);
});

test("no folder of an agent holds or lies in code of beige itself", () => {
  const here = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");
  for (const path of [here, `${here}/plugins/memory`, `${here}/src`, `${here}/node_modules/x`]) {
    const spec = { workspace: { path, onDelete: "retain", shared: false } };
    expect(problems(agentOf("travel", spec), { paths: { workspaces: ["/"] } })[0]?.message).toMatch(/code of beige itself|home folder/);
  }
});

test.each([
  [
    "its own workspace",
    { workspace: { path: "/homes/a", onDelete: "retain", shared: false } },
    [{ source: "/homes/a/sub", target: "/x", readOnly: true }],
  ],
  [
    "its own writable mount",
    {},
    [
      { source: "/homes/a", target: "/x", readOnly: false },
      { source: "/homes/a/sub", target: "/y", readOnly: true },
    ],
  ],
  ["another's writable mount", {}, [{ source: "/homes/other/sub", target: "/y", readOnly: true }]],
])("a mount may not lie inside %s: a link could take its place", (_name, spec, mounts) => {
  const other = agentOf("other", {}, { mounts: [{ source: "/homes/other", target: "/x", readOnly: false }] });
  const found = problems(agentOf("travel", spec, { mounts }), { objects: [other], paths: { workspaces: ["/homes"], mounts: ["/homes"] } });
  expect(found.map((one) => one.message).join()).toMatch(/overlaps .* put a link in its place/);
});

test("two agents may write the same mount, and read below one that nobody writes", () => {
  const mount = (source: string, readOnly: boolean): Record<string, unknown> => ({ mounts: [{ source, target: "/x", readOnly }] });
  const paths = { mounts: ["/homes"] };
  expect(
    problems(agentOf("travel", {}, mount("/homes/a", false)), { objects: [agentOf("other", {}, mount("/homes/a", false))], paths }),
  ).toEqual([]);
  expect(
    problems(agentOf("travel", {}, mount("/homes/a/b", true)), { objects: [agentOf("other", {}, mount("/homes/a", true))], paths }),
  ).toEqual([]);
});

test("a relative path starts at the manifest's folder, and without one it is refused", () => {
  const agent = agentOf("travel", { workspace: { path: "./w", onDelete: "retain", shared: false } });
  expect(problems(agent)[0]).toMatchObject({ path: "/spec/workspace/path", hint: "write an absolute path" });
  expect(problems(agent, { origins: { travel: "/stack" }, paths: { workspaces: ["/stack"] } })).toEqual([]);
});

test.each(["/", "/tmp", "/beige", "/beige/x", "/tools/bin", "/workspace/a", "/proc", "/dev/shm", "/a/../beige", "/data/"])(
  "the mount target %s is taken or refused unless it is free",
  (target) => {
    const mounts = [{ source: "/data/x", target, readOnly: true }];
    expect(problems(agentOf("travel", {}, { mounts }), { paths: { mounts: ["/data"] } }).length).toBe(target === "/data/" ? 0 : 1);
  },
);

test("one target is mounted once", () => {
  const mounts = ["/data/x", "/data/y"].map((source) => ({ source, target: "/data", readOnly: true }));
  expect(problems(agentOf("travel", {}, { mounts }), { paths: { mounts: ["/data"] } })[0]?.message).toBe(
    "mount target /data is there twice",
  );
});

test("variables that the gateway sets are refused", () => {
  expect(problems(agentOf("travel", {}, { env: { PATH: "/x", BEIGE_CALL: "1", OK: "1" } })).map((one) => one.path)).toEqual([
    "/spec/sandbox/env/PATH",
    "/spec/sandbox/env/BEIGE_CALL",
  ]);
});

test("a BEIGE_HOME that is too long for a socket is refused at apply", () => {
  const home = `/${"x".repeat(90)}`;
  expect(problems(agentOf("travel"), { home })[0]).toMatchObject({
    message: expect.stringMatching(/at most 107/) as string,
    hint: "set BEIGE_HOME to a shorter path",
  });
});

test("entries of the allowlist that cannot be read, and secrets that are not for their host, are told with their place", () => {
  const told = (network: object): readonly (string | undefined)[] =>
    (agentKind.check?.(agentOf("a", {}, { network }), viewOf({})) ?? []).map((problem) => problem.path);
  expect(told({ mode: "allowlist", allow: ["api.example.com:443", "*.github.com", { host: "a.dev", ports: [80, 443] }] })).toEqual([]);
  expect(told({ mode: "none", allow: ["api.example.com"] })).toEqual([]);
  expect(told({ mode: "open", allow: ["api.example.com"] })).toEqual(["/spec/sandbox/network/allow"]);
  expect(told({ mode: "allowlist", allow: ["a.dev", "http://b.dev", "127.1:80"] })).toEqual([
    "/spec/sandbox/network/allow/1",
    "/spec/sandbox/network/allow/2",
  ]);
  expect(told({ mode: "allowlist", allow: [{ host: "a.dev", secret: "none" }] })).toEqual(["/spec/sandbox/network/allow/0/secret"]);
});

test("what bubblewrap has not is refused with the field that asks for it", () => {
  const asks = { backend: "bwrap", profile: "packages", runtime: "runsc", network: { mode: "open" } };
  const paths = problems(agentOf("travel", {}, asks)).map(({ path }) => path);
  expect(paths).toEqual(["/spec/sandbox/network/mode", "/spec/sandbox/profile", "/spec/sandbox/runtime"]);
  expect(problems(agentOf("travel", {}, { backend: "bwrap", network: { mode: "allowlist", allow: ["a.example"] } }))).toEqual([]);
});
