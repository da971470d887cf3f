// Looks at everything of an agent; changes nothing.
import { LABEL, type SandboxListed, type SandboxSeen } from "../../src/core/sandbox.ts";
import { diskLimit } from "../../src/core/disk.ts";
import type { Folder } from "../../src/core/overlap.ts";
import { namedFolders } from "../../src/core/folders.ts";
import type { View } from "../../src/core/kind.ts";
import type { WarmSandbox } from "../../src/core/seat.ts";
import { resolvePath } from "../../src/core/paths.ts";
import { refOf, type Agent, type Ref } from "../../src/core/resource.ts";
import type { World } from "../../src/core/world.ts";
import { adoptSeen, allOf } from "./adopt.ts";
import { agentId, backendOf, workspacePath } from "./box.ts";
import { imagesSeen } from "./images.ts";
import { folderSeen, listBoxes } from "./listing.ts";
import { otherFolders } from "./place.ts";
import type { AgentSeen, PathSeen } from "./seen.ts";
import { kitOf } from "./tools.ts";

const isAgents = ({ labels }: SandboxListed): boolean => labels[LABEL.kind] === "Agent" && labels[LABEL.name] !== undefined;
const uidOf = ({ labels }: SandboxListed): string => labels[LABEL.uid] ?? "";
const isOf = (box: SandboxListed, ref: Ref): boolean =>
  isAgents(box) && box.labels[LABEL.name] === ref.name && (box.labels[LABEL.namespace] ?? "") === ref.namespace;

/** Agents that have containers, wanted or not. */
export async function agentNames(w: World): Promise<readonly Ref[]> {
  const boxes = (await listBoxes(w)).filter(isAgents);
  const refs = boxes.map(({ labels }): Ref => ({
    kind: "Agent",
    namespace: labels[LABEL.namespace] ?? "",
    name: labels[LABEL.name] ?? "",
  }));
  return [...new Map(refs.map((ref) => [`${ref.namespace}/${ref.name}`, ref])).values()];
}

const pathSeen = async (w: World, path: string): Promise<PathSeen> => ({ path, ...(await w.workspaces.seen(path)) });

async function kitSeen(w: World, agent: Agent, view: View): Promise<AgentSeen["kit"]> {
  const seen = await w.kits.seen(agentId(agent));
  const there = seen === undefined ? {} : { seen };
  try {
    return { ...there, want: await w.kits.hash(kitOf(agent, view)) };
  } catch (error) {
    // A plugin's files went away: the agent goes on with what it has.
    return { ...there, error: `files of a plugin cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** Other agents' folders matter only to one that has folders of its own. */
async function othersSeen(w: World, agent: Agent, view: View): Promise<readonly Folder[]> {
  if (namedFolders(agent, view).length === 0) return [];
  return Promise.all(otherFolders(agent, view).map(async (folder) => ({ ...folder, path: (await w.workspaces.seen(folder.path)).real })));
}

async function foldersSeen(
  w: World,
  agent: Agent,
  view: View,
): Promise<Pick<AgentSeen, "workspace" | "mounts" | "others" | "homeReal" | "room" | "used">> {
  const origin = view.origin(refOf(agent));
  const workspace = workspacePath(agent, view);
  const sources = agent.spec.sandbox.mounts.flatMap((mount) => resolvePath(mount.source, origin) ?? []);
  const [home, others, mounts, own] = await Promise.all([
    folderSeen(w, view.home),
    othersSeen(w, agent, view),
    Promise.all(sources.map((path) => pathSeen(w, path))),
    workspace === undefined ? undefined : pathSeen(w, workspace),
  ]);
  const room = own?.folder === true ? await w.workspaces.room?.(own.path) : undefined;
  const limit = diskLimit(agent);
  const used = own?.folder === true && limit !== undefined ? w.workspaces.used?.(own.path, limit) : undefined;
  const there = { ...(own === undefined ? {} : { workspace: own }), ...(room === undefined ? {} : { room }) };
  return { homeReal: home.real, others, mounts, ...there, ...(used === undefined ? {} : { used }) };
}

/** `ahead` is what was asked for while the listing was on its way. */
async function inspected(w: World, boxes: readonly SandboxListed[], ahead: SandboxSeen | undefined): Promise<readonly SandboxSeen[]> {
  const seen = await Promise.all(boxes.map(async (box) => (box.id === ahead?.id ? ahead : w.sandbox.inspect(box.id))));
  return seen.filter((box) => box !== undefined);
}

/** So many are looked at anew: the first that fits is taken. */
const WARM_LOOKS = 3;

/** Only for one that never had a sandbox and wants nothing that a folder made beforehand cannot be. */
async function warmSeen(
  w: World,
  { spec, metadata }: Agent,
  about: { readonly own: readonly SandboxListed[]; readonly workspace: PathSeen | undefined },
): Promise<readonly WarmSandbox[]> {
  const { sandbox, workspace } = spec;
  const plain = workspace.path === undefined && sandbox.mounts.length === 0 && backendOf({ spec } as Agent).backend === undefined;
  if (!plain || about.own.length > 0 || about.workspace?.exists !== false || w.state.seats?.fresh(metadata.uid) !== true) return [];
  const waiting = (w.warm?.ready(sandbox.image) ?? []).slice(0, WARM_LOOKS);
  const now = await Promise.all(waiting.map(async (one) => ({ ...one, box: await w.sandbox.inspect(one.box.id) })));
  return now.flatMap(({ box, ...one }) => (box?.state === "running" ? [{ ...one, box }] : []));
}

const NOTHING: AgentSeen = {
  containers: [],
  strays: [],
  mounts: [],
  others: [],
  homeReal: "",
  kit: {},
  socket: { listening: false, hellos: [] },
  calls: 0,
  wanted: false,
  held: false,
  sessions: 0,
};

function strays(listed: readonly SandboxListed[], ref: Ref, uid: string | undefined): AgentSeen["strays"] {
  const others = listed.filter((box) => isOf(box, ref) && (uid === undefined || uidOf(box) !== uid));
  return others.map((box) => ({ id: box.id, name: box.name, uid: uidOf(box) }));
}

export async function observeAgent(w: World, ref: Ref, agent: Agent | undefined, view: View): Promise<AgentSeen> {
  if (agent === undefined) return { ...NOTHING, strays: strays(await listBoxes(w), ref, undefined) };
  const { uid } = agent.metadata;
  const serving = w.state.active(uid);
  // Nearly every agent has the container that serves and no other: it is asked for at once.
  const [listed, ahead, images, folders, kit] = await Promise.all([
    listBoxes(w),
    serving === undefined ? undefined : w.sandbox.inspect(serving),
    imagesSeen(w, agent),
    foldersSeen(w, agent, view),
    kitSeen(w, agent, view),
  ]);
  // By uid first: what carries this object's uid is its own, whatever else its labels say.
  const own = listed.filter((box) => isAgents(box) && uidOf(box) === uid);
  const [made, adopt, warm] = await Promise.all([
    inspected(w, own, ahead),
    adoptSeen(w, { agent, view, own }),
    warmSeen(w, agent, { own, workspace: folders.workspace }),
  ]);
  const active = w.state.active(uid);
  const lacks = active === undefined ? undefined : w.sandbox.lacks?.(active);
  return {
    containers: allOf({ agent, view }, made, { serving: active === ahead?.id ? ahead : undefined, adopt }),
    ...(adopt === undefined ? {} : { adopt }),
    ...(warm.length === 0 ? {} : { warm }),
    strays: strays(listed, ref, uid),
    ...folders,
    kit,
    ...(active === undefined ? {} : { active }),
    // Asking allocates: only where a container shows, or the store says, that it has been done.
    ...(made.length === 0 && active === undefined ? {} : { user: w.state.hostUser(uid) }),
    ...images,
    socket: w.sockets.seen(uid),
    calls: w.calls.running(uid),
    ...(lacks === undefined ? {} : { lacks }),
    wanted: w.calls.wanted?.(uid) === true,
    held: w.calls.held(uid),
    sessions: w.sessions.open(uid),
  };
}
