import { expect, test } from "vitest";
import { allowedBy, clashes, dangerous } from "./overlap.ts";
import type { Folder, Homes } from "./overlap.ts";

const homes: Homes = {
  beige: "/home/matt/.beige",
  users: ["/home/matt", "/root"],
  own: { "agent/a": "/home/matt/.beige/agents/default.a/workspace" },
};
const folder = (owner: string, path: string, use: Folder["use"], more: Partial<Folder> = {}): Folder => ({
  owner,
  path,
  use,
  writable: use === "workspace",
  ...more,
});
const told = (mine: readonly Folder[], others: readonly Folder[] = []): readonly string[] =>
  clashes(mine, others, homes).map((c) => c.message);

test("folders that give power over the host, or hold keys, are never mounted", () => {
  const never = [
    "/",
    "/etc",
    "/etc/nginx",
    "/proc",
    "/proc/1/root",
    "/sys",
    "/dev",
    "/dev/mem",
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/var/run",
    "/run",
    "/var",
    "/var/lib/docker/volumes",
    "/home",
    "/home/matt",
    "/root",
    "/home/matt/.ssh",
    "/home/matt/.ssh/id",
    "/home/matt/.aws",
    "/home/matt/.gnupg/x",
    "/home/matt/.config/gh",
    "/home/matt/.kube/config",
    "/home/matt/.docker",
    "/home/matt/.npmrc",
    "/home/matt/.bashrc",
    "/srv/backup/.ssh",
    "/run/user/1000/podman.sock",
    "/usr",
    "/tmp",
  ];
  for (const path of never) expect([path, typeof dangerous(path, homes)]).toEqual([path, "string"]);
  for (const path of [
    "/srv/data",
    "/home/matt/homes",
    "/home/matt/.sshx",
    "/etcetera",
    "/home/mattx",
    "/tmp/x",
    "/opt/app",
    "/var/lib/app",
  ])
    expect([path, dangerous(path, homes)]).toEqual([path, undefined]);
});

test("only roots that the host allows, and what lies below them, can be named", () => {
  expect([allowedBy("/srv/a", ["/srv"]), allowedBy("/srv", ["/srv/"]), allowedBy("/x", ["/"])]).toEqual([true, true, true]);
  expect([allowedBy("/srvx", ["/srv"]), allowedBy("/", ["/srv"]), allowedBy("/srv", [])]).toEqual([false, false, false]);
});

test("nothing of an agent overlaps BEIGE_HOME but its own workspace", () => {
  expect(told([folder("agent/a", "/home/matt/.beige/agents/default.a/workspace", "workspace")])).toEqual([]);
  for (const path of [
    "/home/matt/.beige",
    "/home/matt/.beige/agents/default.b/workspace",
    "/home/matt",
    "/home/matt/.beige/agents/default.a",
  ]) {
    expect([path, told([folder("agent/a", path, "workspace")]).length]).toEqual([path, 1]);
    expect([path, told([folder("agent/a", path, "mount")]).length]).toEqual([path, 1]);
  }
  expect(told([folder("agent/a", "/home/matt/.beige/agents/default.a/workspace", "mount")])).toHaveLength(1);
  expect(told([folder("plugin/p", "/home/matt/.beige/plugins/p", "plugin")])).toEqual([]);
});

test("what an agent can write never decides what agents may do", () => {
  const plugin = folder("plugin/git", "/srv/plugins/git", "plugin");
  const source = folder("source/stacks", "/srv/stacks", "source");
  for (const path of ["/srv/plugins/git", "/srv/plugins", "/srv/plugins/git/sub"]) {
    expect([path, told([folder("agent/a", path, "workspace")], [plugin]).length]).toEqual([path, 1]);
    expect([path, told([plugin], [folder("agent/a", path, "workspace")]).length]).toEqual([path, 1]);
  }
  expect(told([folder("agent/a", "/srv/stacks", "mount", { writable: true })], [source])).toHaveLength(1);
  expect(told([folder("agent/a", "/srv/stacks", "mount", { writable: false })], [source])).toEqual([]);
  expect(told([folder("agent/a", "/srv/stacks-2", "workspace")], [source])).toEqual([]);
  expect(told([plugin], [source])).toEqual([]);
});

test("agents do not meet in a folder, unless both say that they share this one", () => {
  const a = folder("agent/a", "/srv/w", "workspace");
  expect(told([a], [folder("agent/b", "/srv/w", "workspace")])).toHaveLength(1);
  expect(told([a], [folder("agent/b", "/srv/w/sub", "workspace")])).toHaveLength(1);
  expect(told([{ ...a, shared: true }], [folder("agent/b", "/srv/w", "workspace")])).toHaveLength(1);
  expect(told([{ ...a, shared: true }], [folder("agent/b", "/srv/w", "workspace", { shared: true })])).toEqual([]);
  expect(told([{ ...a, shared: true }], [folder("agent/b", "/srv/w/sub", "workspace", { shared: true })])).toHaveLength(1);
  expect(told([a], [folder("agent/b", "/srv/w", "mount", { writable: true })])).toHaveLength(1);
  expect(told([a], [folder("agent/b", "/srv/w", "mount")])).toHaveLength(1);
  expect(told([folder("agent/a", "/srv/data", "mount")], [folder("agent/b", "/srv/data", "mount")])).toEqual([]);
});

test("a mount below an agent's own workspace is refused: the agent could put a link in its place", () => {
  const a = folder("agent/a", "/srv/w", "workspace");
  expect(told([a, folder("agent/a", "/srv/w/cache", "mount", { writable: true })])).toHaveLength(1);
  expect(told([folder("agent/a", "/srv/d", "mount"), folder("agent/a", "/srv/d/e", "mount")])).toEqual([]);
});
