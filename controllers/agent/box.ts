// The container that an agent's manifest asks for: name, labels, environment, mounts, limits. Pure.
import type { AgentId } from "../../src/core/call.ts";
import { fingerprint, HASH_VERSION } from "../../src/core/fingerprint.ts";
import type { View } from "../../src/core/kind.ts";
import { resolvePath } from "../../src/core/paths.ts";
import { PACKAGES_LABEL, packagesOf, packagesText } from "../../src/core/packages.ts";
import { parseBytes, parseCores } from "../../src/core/quantity.ts";
import { DEFAULT_NAMESPACE, RESTARTED_AT, type Agent } from "../../src/core/resource.ts";
import { LABEL, type Mount, type SandboxSpec } from "../../src/core/sandbox.ts";
import { refOf } from "../../src/core/resource.ts";
import { placeOf, type AgentPlace } from "../../src/core/seat.ts";

/** Inside; no manifest mounts anything there. */
export const INSIDE = { socket: "/beige", launchers: "/tools/bin", packages: "/tools/packages", workspace: "/workspace" } as const;
/** Set by the gateway; the manifest's env does not name them. */
export const GATEWAY_ENV = ["PATH", "HOME", "BEIGE_AGENT", "AI_AGENT", "LANG"] as const;
/** Those that the manifest may set otherwise. */
const DEFAULT_ENV = { HOME: INSIDE.workspace, LANG: "C.UTF-8", AI_AGENT: "beige" } as const;
const pathOf = (path: string): string => `${INSIDE.launchers}:${path}`;

/** Everything but the user, which the store allocates when the container is made. */
export type Box = Omit<SandboxSpec, "user">;
export type Limits = Pick<SandboxSpec, "memoryBytes" | "cpus" | "pids">;

export const agentId = (agent: Agent): AgentId => ({
  namespace: agent.metadata.namespace,
  name: agent.metadata.name,
  uid: agent.metadata.uid,
});

/** beige-AGENT; NS and a part of the store's id where another namespace or home could have the same name. */
export function containerName(agent: Agent, view: View): string {
  const { namespace, name } = agent.metadata;
  const long = namespace === DEFAULT_NAMESPACE ? name : `${namespace}.${name}`;
  return `beige-${long}${view.defaultHome ? "" : `-${view.store.replaceAll("-", "").slice(0, 6)}`}`;
}

/** A new container's name while the old one has the plain one. */
export const nextName = (name: string): string => `${name}-next`;

/** Where the agent's own folders are. */
export const agentPlace = (agent: Agent, view: View): AgentPlace => placeOf(view.home, agent.metadata, view.seatOf);

/** Host folder of the workspace; undefined when its path is relative and nobody knows to what. */
export function workspacePath(agent: Agent, view: View): string | undefined {
  const path = agent.spec.workspace.path;
  return path === undefined ? agentPlace(agent, view).workspace : resolvePath(path, view.origin(refOf(agent)));
}

const byTarget = (a: Mount, b: Mount): number => (a.target < b.target ? -1 : 1);

/** What a newer beige may change without recreating anything: targets and values, not the folders of this home. */
const GATEWAY_PARTS = fingerprint({
  env: { ...DEFAULT_ENV, BEIGE_AGENT: "NAME", PATH: pathOf("PATH") },
  mounts: [INSIDE.socket, INSIDE.launchers, INSIDE.packages],
});

/** Whoever was made before its agent learns the name with each command. */
const environment = (agent: Agent, seated: boolean): Readonly<Record<string, string>> => ({
  ...DEFAULT_ENV,
  ...agent.spec.sandbox.env,
  ...(seated ? {} : { BEIGE_AGENT: agent.metadata.name }),
  PATH: pathOf(agent.spec.sandbox.path),
});

/** Which restart the container is of; undefined while nobody asked for one. */
function restartOf(agent: Agent): string | undefined {
  const said = agent.metadata.annotations?.[RESTARTED_AT];
  return said === undefined || said.length <= 64 ? said : fingerprint(said);
}

/** Absent for the usual one, so that what was made before there were others stays what it is. */
export const backendOf = (agent: Agent): Pick<SandboxSpec, "backend"> =>
  agent.spec.sandbox.backend === "bwrap" ? { backend: "bwrap" } : {};

/** What of the manifest forces another container when it changes; facts of this machine are not in it. */
function replacing(agent: Agent): object {
  const { image, profile, runtime, path, network, mounts, env, resources } = agent.spec.sandbox;
  return {
    ...backendOf(agent),
    image,
    profile,
    runtime,
    path,
    // Through the relay that is always there, allowlist is a matter of the gateway.
    network: network.mode === "open" ? "open" : "none",
    env,
    tmp: parseBytes(resources.tmp),
    mounts: mounts.map(({ source, target, readOnly }) => ({ source, target, readOnly })).toSorted(byTarget),
    workspace: agent.spec.workspace.path,
    restart: restartOf(agent),
    packages: packagesText(packagesOf(agent)),
  };
}

export const specHash = (agent: Agent): string => fingerprint(replacing(agent));

function labels(agent: Agent, view: View): Readonly<Record<string, string>> {
  const restart = restartOf(agent);
  const packages = packagesText(packagesOf(agent));
  return {
    ...(restart === undefined ? {} : { [LABEL.restart]: restart }),
    ...(packages === undefined ? {} : { [PACKAGES_LABEL]: packages }),
    [LABEL.store]: view.store,
    [LABEL.uid]: agent.metadata.uid,
    [LABEL.kind]: agent.kind,
    [LABEL.name]: agent.metadata.name,
    [LABEL.namespace]: agent.metadata.namespace,
    [LABEL.generation]: String(agent.metadata.generation),
    [LABEL.specHash]: specHash(agent),
    [LABEL.hashVersion]: HASH_VERSION,
    [LABEL.gatewayHash]: GATEWAY_PARTS,
  };
}

export interface Sources {
  /** Host folder behind /workspace. */
  readonly workspace: string;
  /** Host folders of spec.sandbox.mounts, in their order. */
  readonly mounts: readonly string[];
}

export function boxOf(agent: Agent, view: View, sources: Sources): Box {
  const { sandbox } = agent.spec;
  const place = agentPlace(agent, view);
  const own: readonly Mount[] = [
    { source: place.sockets, target: INSIDE.socket, readOnly: true },
    { source: place.launchers, target: INSIDE.launchers, readOnly: true },
    { source: place.packages, target: INSIDE.packages, readOnly: true },
    { source: sources.workspace, target: INSIDE.workspace, readOnly: false },
  ];
  const wanted = sandbox.mounts.map(({ target, readOnly }, i) => ({ source: sources.mounts[i] ?? "", target, readOnly }));
  return {
    name: containerName(agent, view),
    labels: labels(agent, view),
    image: sandbox.image,
    env: environment(agent, view.seatOf?.(agent.metadata.uid) !== undefined),
    mounts: [...own, ...wanted].toSorted(byTarget),
    memoryBytes: parseBytes(sandbox.resources.memory) ?? 0,
    cpus: parseCores(sandbox.resources.cpus) ?? 0,
    pids: sandbox.resources.pids,
    tmpBytes: parseBytes(sandbox.resources.tmp) ?? 0,
    // Mode allowlist has no route either: its way out is the gateway's egress socket.
    network: sandbox.network.mode === "open" ? "open" : "none",
    profile: sandbox.profile,
    ...backendOf(agent),
    ...(sandbox.runtime === undefined ? {} : { runtime: sandbox.runtime }),
  };
}

export const limitsOf = ({ memoryBytes, cpus, pids }: Limits): Limits => ({ memoryBytes, cpus, pids });
