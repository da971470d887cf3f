import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { json, stand, type Stand } from "./harness.ts";

const stands: Stand[] = [];
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});

const box = (name: string, store: string, uid: string) => ({
  Id: `id-${name}`,
  Names: [`/${name}`],
  State: "running",
  Labels: { "beige.dev/store": store, "beige.dev/uid": uid, "beige.dev/name": "travel", "beige.dev/namespace": "default" },
});
const SEEN = {
  Name: "/beige-travel",
  Config: {
    Image: "beige:1",
    Env: ["PATH=/x", "MODE=a=b", "BEIGE_AGENT=travel"],
    Labels: { "beige.dev/name": "travel", "beige.dev/namespace": "team" },
  },
  HostConfig: { NetworkMode: "bridge", Memory: 3 * 1024 ** 3, NanoCpus: 1.5e9, PidsLimit: 64 },
  Mounts: [
    { Type: "bind", Source: "/home/x/homes", Destination: "/workspace", RW: true },
    { Type: "bind", Source: "/srv/data", Destination: "/data", RW: false },
    { Type: "bind", Source: "/run/socket", Destination: "/beige", RW: false },
    { Type: "volume", Source: "/var/v", Destination: "/v", RW: true },
  ],
};

async function machine(seen: object = SEEN): Promise<Stand & { readonly env: Readonly<Record<string, string>>; readonly docker: Stand }> {
  const docker = await stand({
    "GET /containers/json": ({ response }) =>
      json(response, [box("mine", "s-1", "u-1"), box("lost", "s-1", "u-9"), box("other", "s-2", "u-1")]),
    "GET /containers/beige-travel/json": ({ response }) => json(response, seen),
  });
  const gateway = await stand({
    "GET /api/health": ({ response }) => json(response, { status: "ok", store: "s-1" }),
    "GET /apis/beige.dev/v1/agents": ({ response }) =>
      json(response, { items: [{ metadata: { name: "travel", namespace: "default", uid: "u-1" } }] }),
  });
  stands.push(docker, gateway);
  return Object.assign(gateway, { docker, env: { DOCKER_HOST: `unix://${join(docker.home, "beige.sock")}` } });
}

test("orphans are containers of no object, those of other gateways, and workspaces that were kept", async () => {
  const made = await machine();
  for (const name of ["default.travel", "default.gone", "team.old", "odd"])
    mkdirSync(join(made.home, "agents", name, "workspace"), { recursive: true });
  writeFileSync(join(made.home, "agents/team.old/workspace/a"), "x");
  const { items } = JSON.parse((await made.run(["orphans", "-o", "json"], { env: made.env })).out) as {
    items: { what: string; name: string; agent: string; state: string; why: string }[];
  };
  expect(items.map(({ what, agent, state, why }) => [what, agent, state, why.slice(0, 18)])).toEqual([
    ["container", "travel", "running", "no object: the gat"],
    ["container", "travel", "running", "of another gateway"],
    ["workspace", "gone", "empty", "kept when its agen"],
    ["workspace", "team.old", "1 entries", "kept when its agen"],
  ]);
  expect(items.slice(0, 2).map((each) => each.name)).toEqual(["lost", "other"]);
  expect(made.docker.asked.every((line) => line.startsWith("GET "))).toBe(true);
});

test("an image with packages that no container has is an orphan", async () => {
  const made = await machine();
  const derived = (packages: readonly string[]) => ({ "beige.dev/derived": JSON.stringify({ base: "sha256:b", packages }) });
  const docker = await stand({
    "GET /containers/json": ({ response }) => json(response, [{ ...box("mine", "s-1", "u-1"), ImageID: "sha256:used" }]),
    "GET /images/json": ({ response }) =>
      json(response, [
        { Id: "sha256:used", RepoTags: ["beige-derived:1"], Labels: derived(["jq"]) },
        { Id: "sha256:left", RepoTags: ["beige-derived:2"], Labels: derived(["jq", "tree"]) },
        { Id: "sha256:copy", RepoTags: ["my/own:1"], Labels: derived(["jq"]) },
      ]),
  });
  stands.push(docker);
  const { out } = await made.run(["orphans", "-o", "json"], { env: { DOCKER_HOST: `unix://${join(docker.home, "beige.sock")}` } });
  expect(JSON.parse(out).items).toEqual([
    { what: "image", name: "beige-derived:2", agent: "-", state: "jq, tree", why: "no container has it: docker rmi beige-derived:2" },
  ]);
});

test("an engine that does not answer is exit 5", async () => {
  const made = await machine();
  expect((await made.run(["orphans"], { env: { DOCKER_HOST: "unix:///nowhere.sock" } })).code).toBe(5);
});

test("adopt writes the agent that a container is, without what the gateway decides, and only reads", async () => {
  const made = await machine();
  const ran = await made.run(["adopt", "beige-travel", "--model", "openrouter/a/b"], { env: made.env });
  expect(ran.code).toBe(0);
  expect(ran.out).toBe(
    [
      "apiVersion: beige.dev/v1",
      "kind: Agent",
      "metadata:",
      "  name: travel",
      "  namespace: team",
      "  annotations:",
      "    beige.dev/adopt: beige-travel",
      "spec:",
      "  model:",
      "    provider: openrouter",
      "    id: a/b",
      "  sandbox:",
      "    image: beige:1",
      "    resources:",
      "      memory: 3072Mi",
      "      cpus: 1.5",
      "      pids: 64",
      "    network:",
      "      mode: open",
      "    mounts:",
      "      - source: /srv/data",
      "        target: /data",
      "        readOnly: true",
      "    env:",
      "      MODE: a=b",
      "  workspace:",
      "    path: /home/x/homes",
      "",
    ].join("\n"),
  );
  writeFileSync(join(made.home, "a.yaml"), ran.out);
  expect((await made.run(["validate", "-f", "a.yaml"])).code).toBe(0);
  expect(made.docker.asked).toEqual(["GET /containers/beige-travel/json"]);
});

test("adopt of a lost store's container on this home names it by its labels, and says all that it was made with", async () => {
  const [store, uid] = ["0f0e0d0c-0b0a-4908-8706-050403020100", "a1b2c3d4-e5f6-4708-890a-0b0c0d0e0f10"];
  const labels = { ...SEEN.Config.Labels, "beige.dev/store": store, "beige.dev/uid": uid };
  const seen = (home: string): object => ({
    ...SEEN,
    Config: { ...SEEN.Config, Env: ["PATH=/tools/bin:/bin", "HOME=/workspace", "LANG=C", "BEIGE_AGENT=travel"], Labels: labels },
    HostConfig: {
      ...SEEN.HostConfig,
      ReadonlyRootfs: false,
      Tmpfs: { "/tmp": "rw,exec,size=1048576" },
      Memory: 6_300_000,
      Runtime: "runsc",
    },
    Mounts: [
      { Type: "bind", Source: `${home}/run/a1b2c3d4e5`, Destination: "/beige", RW: false },
      { Type: "bind", Source: `${home}/agents/team.travel/workspace`, Destination: "/workspace", RW: true },
    ],
  });
  const ours: Record<string, unknown> = {};
  const made = await machine(ours);
  Object.assign(ours, seen(made.home));
  const ran = await made.run(["adopt", "beige-travel", "--model", "a/b"], { env: made.env });
  for (const part of [
    `beige.dev/adopt: ${store}/${uid}`,
    "profile: packages",
    "runtime: runsc",
    "path: /bin",
    "tmp: 1048576",
    "LANG: C",
    "memory: 6300000",
  ])
    expect(ran.out).toContain(part);
  expect(ran.out).not.toMatch(/HOME|BEIGE_AGENT|workspace/);
  expect(ran.err).toContain("goes on as it is");
  // The same of another home is a stranger's.
  Object.assign(ours, seen("/elsewhere"));
  const other = await made.run(["adopt", "beige-travel", "--model", "a/b"], { env: made.env });
  for (const part of ["beige.dev/adopt: beige-travel", "path: /elsewhere/agents/team.travel/workspace"]) expect(other.out).toContain(part);
  expect(other.err).toContain("never touched");
  Object.assign(ours, { Config: { Labels: { ...labels, "beige.dev/store": "s-1" } } });
  expect(await made.run(["adopt", "beige-travel", "--model", "a/b"], { env: made.env })).toMatchObject({ code: 3 });
});

test.each<[string, string[], number, RegExp]>([
  ["no model", ["beige-travel"], 2, /which model/],
  ["half a model", ["beige-travel", "--model", "openai"], 2, /which model/],
  ["a path", ["../x", "--model", "a/b"], 2, /is no name of a container/],
  ["no such container", ["none", "--model", "a/b"], 1, /there is no container none/],
  ["a name that cannot be", ["beige-travel", "--model", "a/b", "--name", "No_Name"], 2, /cannot name an Agent/],
])("adopt with %s is refused", async (_name, args, code, why) => {
  const made = await machine();
  const ran = await made.run(["adopt", ...args], { env: made.env });
  expect(ran.code).toBe(code);
  expect(ran.err).toMatch(why);
});

test.each<[string, object]>([
  ["nothing known", {}],
  ["nothing set", { Name: "/x", Config: { Env: null, Labels: null }, HostConfig: { PidsLimit: null }, Mounts: [] }],
  ["variables in its environment", { ...SEEN, Config: { ...SEEN.Config, Env: ["A=${HOME}", "B=$$", "=x", "noequals"] } }],
])("a container with %s gives a manifest that validates", async (_name, seen) => {
  const made = await machine(seen);
  const ran = await made.run(["adopt", "beige-travel", "--model", "a/b"], { env: made.env });
  expect(ran.code).toBe(0);
  expect(ran.out.replaceAll("$${", "")).not.toContain("${");
  writeFileSync(join(made.home, "a.yaml"), ran.out);
  // The provider that it names may be one of the gateway's.
  expect(await made.run(["validate", "-f", "a.yaml"])).toMatchObject({ code: 0, err: expect.not.stringContaining("error") });
});
