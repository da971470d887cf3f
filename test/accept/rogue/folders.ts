// Manifests that would widen what an agent can reach, by every spelling of a folder that is not its own.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { agent, sandbox, type Ground } from "./ground.ts";
import { root } from "../../gateway.ts";
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

const box = sandbox("beige-tiny:1", "64Mi");
const withWorkspace = (path: string): string => agent("greedy", `${box}\n  workspace: {path: "${path}"}`);
const withMount = (path: string, readOnly: boolean): string =>
  agent("greedy", `${box.replace(/\}$/, `, mounts: [{source: "${path}", target: /data, readOnly: ${readOnly}}]}`)}`);

/** Folders of others, by every plain spelling. */
function foreignFolders(ground: Ground): readonly string[] {
  const { gateway, host } = ground;
  const { home } = gateway;
  const inHome = ["", "/", "/.", "/agents", "/agents/default.alice", "/agents/default.alice/workspace", "/agents/default.alice/workspace/sub", "/agents/default.greedy", "/sessions/default.alice", "/plugins/memory", "/logs", "/run", "/new"];
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

const DANGEROUS = ["/", "/etc", "/etc/cron.d", "/proc", "/proc/self/root", "/proc/1/root/tmp/x", "/sys/fs/cgroup", "/dev/shm", "/boot", "/root", "/root/.ssh", "/home", "/var/run/docker.sock", "/run/docker.sock", "/var/lib/docker/volumes", "/run", "/var", "/usr", "/usr/../etc", "//etc", "/tmp", "/tmp/."];

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
  const read = ["/", "/etc", "/proc", "/var/run/docker.sock", ground.gateway.home, join(ground.gateway.home, "token"), join(ground.host, "dir/to-home"), join(ground.host, "dir/to-etc"), join(ground.host, "dir/to-engine"), join(ground.host, "dir/to-victim")];
  mkdirSync(join(ground.host, "bob/plug"), { recursive: true });
  plugin(join(ground.host, "bob/plug"));
  symlinkSync(join(ground.host, "bob/plug"), join(ground.host, "innocent"));
  mkdirSync(join(ground.host, "share/sub"), { recursive: true });
  const nested = [
    // Its own writable folder: whoever writes there can put a link in the place of the inner one.
    agent("greedy", `${box}\n  workspace: {path: "${ground.host}/own"}`).replace("pids: 96}", `pids: 96}, mounts: [{source: "${ground.host}/own/sub", target: /data, readOnly: true}]`),
    agent("greedy", box.replace("pids: 96}", `pids: 96}, mounts: [{source: "${ground.host}/share", target: /a, readOnly: false}, {source: "${ground.host}/share/sub", target: /b}]`)),
    agent("greedy", box.replace("pids: 96}", `pids: 96}, mounts: [{source: "${ground.host}/dir/up/share", target: /a, readOnly: false}, {source: "${ground.host}/share/sub", target: /b}]`)),
  ];
  const hostile = [join(ground.host, "bob/plug"), join(ground.host, "bob/x/../plug"), join(ground.host, "innocent"), join(ground.host, "dir/up/bob/plug")];
  return [
    ...[...paths, ...relative].map((path) => ({ what: `workspace ${path}`, text: withWorkspace(path) })),
    ...[...paths, ...relative].map((path) => ({ what: `writable mount ${path}`, text: withMount(path, false) })),
    ...read.map((path) => ({ what: `mount ${path}`, text: withMount(path, true) })),
    ...nested.map((text, i) => ({ what: `a mount in a writable folder (${i})`, text })),
    ...hostile.map((path) => ({ what: `plugin code ${path} in an agent's workspace`, text: pluginText(path, "hostile") })),
  ];
}

/** Everything that an apply could have changed. */
async function world(ground: Ground): Promise<unknown> {
  const { gateway, host } = ground;
  const list = async (plural: string, scope = ""): Promise<unknown> => {
    const { body } = await gateway.request("GET", `/apis/beige.dev/v1/${scope}${plural}`);
    return (body as { items: { metadata: { name: string; generation: number } }[] }).items.map(({ metadata }) => `${metadata.name} ${metadata.generation}`);
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

export async function folders(ground: Ground): Promise<string> {
  const { host, gateway } = ground;
  plugin(join(host, "plugin"));
  await gateway.apply(`${pluginText(join(host, "plugin"))}\n${agent("bob", `${box}\n  workspace: {path: "${host}/bob"}`)}`, { set: "neighbour" });
  const all = cases(ground);
  const before = await world(ground);
  const wrong: string[] = [];
  for (const one of all) wrong.push(...[await refuse(ground, one, { dryRun: false }), await refuse(ground, one, { dryRun: true })].flatMap((said) => said ?? []));
  assert.deepEqual(wrong, [], "every one is refused with exit 2");
  assert.deepEqual(await world(ground), before, "nothing has changed");
  const file = join(host, "greedy.yaml");
  writeFileSync(file, withWorkspace(join(host, "dir/to-bob")));
  const cli = await gateway.beige("apply", "-f", file);
  assert.equal(cli.code, 2, cli.out + cli.err);
  rmSync(file);
  const swapped = await swaps();
  return `${all.length} manifests with a folder of others refused; ${swapped}`;
}
