// Does one thing to an agent's world: idempotent, one effect each.
import { BeigeError, asBeigeError, type ErrorCode } from "../../src/core/errors.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import type { Warm } from "../../src/core/seat.ts";
import type { FolderSeen, World } from "../../src/core/world.ts";
import type { AgentAction, Place, Which } from "./action.ts";
import { DELETED } from "./gone.ts";
import { actImage } from "./images.ts";
import { forgetListing, listBoxes } from "./listing.ts";
import { REPLACE, REPLACE_FAILED } from "./replace.ts";

type Of<T extends AgentAction["type"]> = Extract<AgentAction, { type: T }>;

/** The guest's PID 1 ends at once on TERM. */
const STOP_GRACE_MS = 3000;
/** These say that nothing was judged: the next try may work. */
const PASSING: ReadonlySet<ErrorCode> = new Set(["unavailable", "timeout", "exhausted"]);

type User = { readonly uid: number; readonly gid: number };

const chown = (path: string, owner: User): string => `run: chown -R ${owner.uid}:${owner.gid} ${path}`;

function assertOwner(folder: FolderSeen, about: { readonly path: string; readonly shared: boolean }, owner: User): void {
  const { path, shared } = about;
  if (!folder.folder) throw new BeigeError("invalid", `workspace ${path} is not a folder`, { hint: "choose another workspace.path" });
  // In a shared one it is up to whoever shares it who may write.
  if (folder.uid === owner.uid || (shared && folder.uid !== 0)) return;
  const whose = folder.uid === 0 ? "root" : `user ${folder.uid}`;
  throw new BeigeError("denied", `workspace ${path} belongs to ${whose}, the sandbox runs as user ${owner.uid}; ${chown(path, owner)}`, {
    hint: chown(path, owner),
  });
}

/** The path still leads where it led when it was checked. */
async function assertPlace(w: World, place: Place): Promise<FolderSeen> {
  const now = await w.workspaces.seen(place.path);
  if (now.real !== place.real)
    throw new BeigeError("conflict", `${place.what} ${place.path} led to ${place.real} and leads to ${now.real} now`, {
      hint: "it is checked again at the next look",
    });
  return now;
}

/** A workspace below BEIGE_HOME that an earlier agent of this name left goes to the new one: that is what keeping it is for. */
async function makeWorkspace(w: World, action: Of<"workspace">): Promise<void> {
  const owner = w.state.hostUser(action.agent.uid);
  const now = await w.workspaces.seen(action.path);
  if (!now.exists) return w.workspaces.create(action.path, owner);
  if (action.own && now.folder && now.uid !== owner.uid && w.workspaces.give !== undefined) return w.workspaces.give(action.path, owner);
  assertOwner(now, action, owner);
}

async function create(w: World, action: Of<"create">, signal: AbortSignal): Promise<void> {
  const owner = w.state.hostUser(action.agent.uid);
  for (const place of action.places) {
    const now = await assertPlace(w, place);
    if (place.what === "workspace") assertOwner(now, { path: place.path, shared: action.shared }, owner);
  }
  await remembering(w, action, () => w.sandbox.create({ ...action.box, user: owner }, signal), signal);
}

/** A replacement that the engine refuses is not tried again at once: the old container serves. One that was stopped midway is. */
async function remembering(w: World, action: Of<"create"> | Of<"start">, run: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    const error = asBeigeError(thrown);
    if (action.replacing !== undefined && !signal.aborted && !PASSING.has(error.code)) {
      const data = { key: action.replacing, message: error.message };
      w.state.setIntent(action.agent.uid, { type: REPLACE_FAILED, data, startedAt: w.clock.now() });
    }
    throw error;
  }
}

/** The id of a container that was made in this pass, by its whole name among this agent's. */
async function idOf(w: World, uid: string, which: Which): Promise<string> {
  if ("id" in which) return which.id;
  const box = (await listBoxes(w)).find(({ name, labels }) => name === which.name && labels[LABEL.uid] === uid);
  if (box !== undefined) return box.id;
  throw new BeigeError("unavailable", `container ${which.name} is gone again`);
}

async function start(w: World, action: Of<"start">, signal: AbortSignal): Promise<void> {
  const id = await idOf(w, action.agent.uid, action.which);
  await remembering(w, action, () => w.sandbox.start(id, signal), signal);
}

async function removeWorkspace(w: World, action: Of<"workspace-remove">): Promise<void> {
  const now = await assertPlace(w, { path: action.path, real: action.real, what: "workspace" });
  if (now.exists) await w.workspaces.remove(now.real);
}

/** One row in the store: from here on the other container serves. */
function serve(w: World, action: Of<"serve">): void {
  if (action.cut) w.calls.cut(action.uid, "sandbox replaced, retry");
  w.state.setActive(action.uid, action.id);
  w.calls.admit(action.uid);
}

/** It serves from here on. A user that is another agent's by now stays that one's: the container is replaced then. */
function adopt(w: World, { uid, id, user }: Of<"adopt">): void {
  w.state.takeUser(uid, user);
  w.state.setActive(uid, id);
}

function clean(w: World, { uid, mark }: Of<"clean">): void {
  w.state.setActive(uid, undefined);
  w.state.setIntent(uid, mark ? { type: DELETED, data: {}, startedAt: w.clock.now() } : undefined);
  w.calls.admit(uid);
}

function theWarm({ warm }: World): Warm {
  if (warm === undefined) throw new BeigeError("internal", "there is no warm pool");
  return warm;
}

async function onSandbox(w: World, action: AgentAction, signal: AbortSignal): Promise<boolean> {
  switch (action.type) {
    case "create":
      await create(w, action, signal);
      return true;
    case "start":
      await start(w, action, signal);
      return true;
    case "stop":
      await w.sandbox.stop(action.id, STOP_GRACE_MS, signal);
      return true;
    case "unpause":
      await w.sandbox.unpause(action.id, signal);
      return true;
    case "remove":
      await w.sandbox.remove(action.id, signal);
      return true;
    case "rename":
      await w.sandbox.rename(action.id, action.name, signal);
      return true;
    case "claim":
      await theWarm(w).claim(action.claim, signal);
      return true;
    case "limits":
      await w.sandbox.update(action.id, action.limits, signal);
      return true;
    default:
      return actImage(w, action, signal);
  }
}

async function onGateway(w: World, action: AgentAction): Promise<void> {
  switch (action.type) {
    case "workspace":
      return makeWorkspace(w, action);
    case "workspace-remove":
      return removeWorkspace(w, action);
    case "kit":
      return w.kits.write(action.agent, action.kit, w.state.hostUser(action.agent.uid));
    case "kit-remove":
      return w.kits.remove(action.agent);
    case "socket":
      return w.sockets.open(action.agent, w.state.hostUser(action.agent.uid));
    case "leave":
      return theWarm(w).leave(action.agent);
    case "close":
      return w.sockets.close(action.uid);
    case "end-sessions":
      return w.sessions.end(action.uid, action.because);
    default:
      return inStore(w, action);
  }
}

function inStore(w: World, action: AgentAction): void {
  switch (action.type) {
    case "cut":
      return w.calls.cut(action.uid, action.because);
    case "hold":
      return w.calls.hold(action.uid, action.limitMs);
    case "admit":
      return w.calls.admit(action.uid);
    case "adopt":
      return adopt(w, action);
    case "serve":
      return serve(w, action);
    case "begin":
      return w.state.setIntent(action.uid, { type: REPLACE, data: { key: action.key }, startedAt: w.clock.now() });
    case "fail":
      return w.state.setIntent(action.uid, {
        type: REPLACE_FAILED,
        data: { key: action.key, message: action.message },
        startedAt: w.clock.now(),
      });
    case "settle":
      return w.state.setIntent(action.uid, undefined);
    case "clean":
      return clean(w, action);
    default:
      throw new BeigeError("internal", `no such action: ${action.type}`);
  }
}

export async function actAgent(w: World, action: AgentAction, signal: AbortSignal): Promise<void> {
  try {
    if (await onSandbox(w, action, signal)) return;
  } finally {
    forgetListing(w);
  }
  await onGateway(w, action);
}
