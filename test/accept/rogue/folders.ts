// Manifests that would widen what an agent can reach, by every spelling of a folder that is not its own.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { agent, sandbox, type Ground } from "./ground.ts";
import { root, until } from "../../gateway.ts";
import { swaps } from "./swaps.ts";

interface Case {
  readonly what: string;
  readonly text: string;
}

const PLUGIN = JSON.stringify({ name: "local", description: "A plugin by path.", provides: { tools: ["local"] } });
const CODE = `export const createPlugin = async () => ({ register: async (r) => r.tool({ name: "local", description: "x", run: async () => ({ output: "local" }) }) });`;

function plugin(folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "plugin.json"), PLUGIN);
  writeFileSync(join(folder, "index.js"), CODE);
}

const pluginText = (path: string, name = "local"): string => `
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: ${name}}
spec: {source: {path: "${path}"}}
`;

type Mount = readonly [path: string, readOnly: boolean];

const box = (...mounts: readonly Mount[]): string => {
  const list = mounts.map(([path, readOnly], i) => `{source: "${path}", target: /data${i}, readOnly: ${readOnly}}`);
  return sandbox("beige-tiny:1", "64Mi", `, mounts: [${list.join(", ")}]`);
};
const withWorkspace = (path: string, ...mounts: readonly Mount[]): string =>
  agent("greedy", `${box(...mounts)}\n  workspace: {path: "${path}"}`);
const withMounts = (...mounts: readonly Mount[]): string => agent("greedy", box(...mounts));

/** Folders of others, by every plain spelling. */
function foreignFolders(ground: Ground): readonly string[] {
  const { gateway, host } = ground;
  const { home } = gateway;
  const inHome = [
    "",
    "/",
    "/.",
    "/agents",
    "/agents/default.alice",
    "/agents/default.alice/workspace",
    "/agents/default.alice/workspace/sub",
    "/agents/default.greedy",
    "/sessions/default.alice",
    "/plugins/memory",
    "/logs",
    "/run",
    "/new",
  ];
  return [
    ...inHome.map((path) => `${home}${path}`),
    `${dirname(home)}/x/../${basename(home)}`,
    `${host}/bob`,
    `${host}/bob/sub`,
    `${host}/./bob/`,
    `${host}/x/../bob`,
    `${host}//bob//sub/..`,
    host,
    `${host}/plugin`,
    `${host}/plugin/sub`,
    `${host}/dir/../plugin`,
    root,
    join(root, "plugins/memory"),
    join(root, "src"),
    join(root, "node_modules/yaml"),
  ];
}

const DANGEROUS = [
  "/",
  "/etc",
  "/etc/cron.d",
  "/proc",
  "/proc/self/root",
  "/proc/1/root/tmp/x",
  "/sys/fs/cgroup",
  "/dev/shm",
  "/boot",
  "/root",
  "/root/.ssh",
  "/home",
  "/var/run/docker.sock",
  "/run/docker.sock",
  "/var/lib/docker/volumes",
  "/run",
  "/var",
  "/usr",
  "/usr/../etc",
  "//etc",
  "/tmp",
  "/tmp/.",
];

/** Links on the host that lead where an agent must not be. */
function linkedFolders(ground: Ground): readonly string[] {
  const { gateway, host } = ground;
  const to: Readonly<Record<string, string>> = {
    "to-home": gateway.home,
    "to-victim": ground.workspace("alice"),
    "to-bob": join(host, "bob"),
    "to-plugin": join(host, "plugin"),
    "to-etc": "/etc",
    "to-root": "/",
    "to-run": "/run",
    "to-engine": "/var/run/docker.sock",
    "to-builtin": join(root, "plugins/memory"),
    up: host,
  };
  for (const [name, target] of Object.entries(to)) symlinkSync(target, join(host, "dir", name));
  const direct = Object.keys(to).map((name) => join(host, "dir", name));
  return [...direct, `${host}/dir/up/bob`, `${host}/dir/up/dir/to-home/new`, `${host}/dir/to-root/etc`, `${host}/dir/to-victim/sub`];
}

function cases(ground: Ground): readonly Case[] {
  const paths = [...foreignFolders(ground), ...DANGEROUS, ...linkedFolders(ground)];
  const relative = ["./bob", "bob/sub", "dir/../bob", "./plugin", ".", "./dir/to-home", "../../etc"];
  const read = [
    "/",
    "/etc",
    "/proc",
    "/var/run/docker.sock",
    ground.gateway.home,
    join(ground.gateway.home, "token"),
    join(ground.host, "dir/to-home"),
    join(ground.host, "dir/to-etc"),
    join(ground.host, "dir/to-engine"),
    join(ground.host, "dir/to-victim"),
  ];
  mkdirSync(join(ground.host, "bob/plug"), { recursive: true });
  plugin(join(ground.host, "bob/plug"));
  symlinkSync(join(ground.host, "bob/plug"), join(ground.host, "innocent"));
  mkdirSync(join(ground.host, "share/sub"), { recursive: true });
  // Whoever writes the outer folder can put a link in the place of the inner one: also the agent itself.
  const { host } = ground;
  const nested = [
    withWorkspace(`${host}/own`, [`${host}/own/sub`, true]),
    withMounts([`${host}/share`, false], [`${host}/share/sub`, true]),
    withMounts([`${host}/dir/up/share`, false], [`${host}/share/sub`, true]),
  ];
  const hostile = [
    join(ground.host, "bob/plug"),
    join(ground.host, "bob/x/../plug"),
    join(ground.host, "innocent"),
    join(ground.host, "dir/up/bob/plug"),
  ];
  return [
    ...[...paths, ...relative].map((path) => ({ what: `workspace ${path}`, text: withWorkspace(path) })),
    ...[...paths, ...relative].map((path) => ({ what: `writable mount ${path}`, text: withMounts([path, false]) })),
    ...read.map((path) => ({ what: `mount ${path}`, text: withMounts([path, true]) })),
    ...nested.map((text, i) => ({ what: `a mount in a writable folder (${i})`, text })),
    ...hostile.map((path) => ({ what: `plugin code ${path} in an agent's workspace`, text: pluginText(path, "hostile") })),
  ];
}

/** Everything that an apply could have changed. */
async function world(ground: Ground): Promise<unknown> {
  const { gateway, host } = ground;
  const list = async (plural: string, scope = ""): Promise<unknown> => {
    const { body } = await gateway.request("GET", `/apis/beige.dev/v1/${scope}${plural}`);
    return (body as { items: { metadata: { name: string; generation: number } }[] }).items.map(
      ({ metadata }) => `${metadata.name} ${metadata.generation}`,
    );
  };
  return {
    agents: await list("agents", "namespaces/default/"),
    plugins: await list("plugins"),
    containers: gateway.containers().toSorted(),
    home: readdirSync(join(gateway.home, "agents")).toSorted(),
    // Not recursive: that follows links.
    host: ["", "bob", "bob/plug", "plugin", "dir"].map((name) => readdirSync(join(host, name)).toSorted()),
  };
}

interface End {
  readonly exit?: number;
  readonly message?: string;
}

async function refuse(ground: Ground, one: Case, way: { readonly dryRun: boolean }): Promise<string | undefined> {
  const files = [{ name: "greedy.yaml", folder: ground.host, text: one.text, vars: {}, files: {} }];
  const body = { files, set: "greedy", dryRun: way.dryRun, forceConflicts: false, prune: false, wait: true, timeoutMs: 5_000 };
  const end = (await ground.gateway.stream("/api/apply", body)).at(-1) as End | undefined;
  return end?.exit === 2 ? undefined : `${one.what}: exit ${end?.exit} ${end?.message}`;
}

/** A write past the plan, as other tools do it: it may be stored, but nothing comes of it. */
async function rawWrites(ground: Ground): Promise<number> {
  const { gateway, host } = ground;
  const model = { provider: "offline", id: "echo-1" };
  const image = { image: "beige-tiny:1" };
  const agents = [join(host, "dir/to-bob"), join(host, "dir/to-victim"), join(host, "dir/to-plugin"), join(gateway.home, "sessions")];
  const specs = agents.flatMap((path) => [
    { model, sandbox: image, workspace: { path } },
    { model, sandbox: { ...image, mounts: [{ source: path, target: "/data", readOnly: false }] } },
  ]);
  const writes = [
    ...specs.map((spec) => ({ kind: "Agent", at: "namespaces/default/agents", spec })),
    ...["bob/plug", "innocent"].map((path) => ({ kind: "Plugin", at: "plugins", spec: { source: { path: join(host, path) } } })),
  ];
  const containers = gateway.containers();
  for (const [i, { kind, at, spec }] of writes.entries()) {
    const metadata = { name: `raw${i}` };
    const path = `/apis/beige.dev/v1/${at}`;
    const { status } = await gateway.request("POST", path, { apiVersion: "beige.dev/v1", kind, metadata, spec });
    if (status >= 400) continue;
    const object = await until(
      async () => {
        const { body } = await gateway.request("GET", `${path}/raw${i}`);
        return (body as Stored).status?.conditions?.find(({ type }) => type === "Ready");
      },
      20_000,
      `raw${i} is looked at`,
    );
    assert.equal(object.reason, "PathRefused", `${JSON.stringify(spec)}: ${JSON.stringify(object)}`);
    await gateway.request("DELETE", `${path}/raw${i}`);
  }
  assert.deepEqual(gateway.containers().toSorted(), containers.toSorted(), "no container came of it");
  return writes.length;
}

interface Stored {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason: string }[] };
}

export async function folders(ground: Ground): Promise<string> {
  const { host, gateway } = ground;
  plugin(join(host, "plugin"));
  await gateway.apply(`${pluginText(join(host, "plugin"))}\n${agent("bob", `${box()}\n  workspace: {path: "${host}/bob"}`)}`, {
    set: "neighbour",
  });
  const all = cases(ground);
  const before = await world(ground);
  const wrong: string[] = [];
  for (const one of all)
    wrong.push(
      ...[await refuse(ground, one, { dryRun: false }), await refuse(ground, one, { dryRun: true })].flatMap((said) => said ?? []),
    );
  assert.deepEqual(wrong, [], "every one is refused with exit 2");
  assert.deepEqual(await world(ground), before, "nothing has changed");
  const file = join(host, "greedy.yaml");
  writeFileSync(file, withWorkspace(join(host, "dir/to-bob")));
  const cli = await gateway.beige("apply", "-f", file);
  assert.equal(cli.code, 2, cli.out + cli.err);
  rmSync(file);
  const raw = await rawWrites(ground);
  const swapped = await swaps();
  return `${all.length} manifests and ${raw} raw writes with a folder of others refused; ${swapped}`;
}
