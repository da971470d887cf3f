// Taking over what is not of this store: what may be taken, and why something may not. Nothing is touched that is not named.
import { ADOPT, adoptionOf } from "../../src/core/adoption.ts";
import type { Problem } from "../../src/core/errors.ts";
import type { View } from "../../src/core/kind.ts";
import { socketFolder, uid10 } from "../../src/core/paths.ts";
import { refName, refOf, type Agent } from "../../src/core/resource.ts";
import { WARM } from "../../src/core/seat.ts";
import { LABEL, type SandboxListed, type SandboxSeen } from "../../src/core/sandbox.ts";
import type { World } from "../../src/core/world.ts";
import { step, type AgentAction } from "./action.ts";
import { INSIDE } from "./box.ts";
import type { Refused } from "./place.ts";
import { shortId, type AdoptSeen, type AgentSeen } from "./seen.ts";

const PATH = `/metadata/annotations/${ADOPT.replace("/", "~1")}`;
const OWNER_LOOK_MS = 5000;

/** The gateways of one home share its socket folders, one after the other; the home's lock says that the former one is gone. */
const ofThisHome = (box: SandboxSeen, home: string, uid: string): boolean =>
  box.spec.labels[LABEL.kind] === "Agent" &&
  box.spec.labels[LABEL.uid] === uid &&
  box.spec.mounts.some((mount) => mount.target === INSIDE.socket && mount.source === socketFolder(home, uid));

/** One that was made before the agent, and is in the seat that the store says is the agent's. */
const ofItsSeat = ({ spec: { labels } }: SandboxSeen, view: View, uid: string): boolean =>
  labels[LABEL.kind] === WARM && labels[LABEL.store] === view.store && labels[LABEL.uid] === view.seatOf?.(uid);

async function lostSeen(w: World, view: View, named: { readonly store: string; readonly uid: string }): Promise<AdoptSeen> {
  const listed = await w.sandbox.list(named.store);
  const mine = listed.filter(({ labels }) => labels[LABEL.kind] === "Agent" && labels[LABEL.uid] === named.uid);
  const boxes = (await Promise.all(mine.map(({ id }) => w.sandbox.inspect(id)))).filter((box) => box !== undefined);
  const here = boxes.filter((box) => ofThisHome(box, view.home, named.uid));
  return { takeable: here, elsewhere: boxes.filter((box) => !here.includes(box)) };
}

/** All that is the agent's: by its labels, by the store's word on what serves, and by what it takes over. */
export function allOf(
  about: { readonly agent: Agent; readonly view: View },
  own: readonly SandboxSeen[],
  others: { readonly serving?: SandboxSeen | undefined; readonly adopt?: AdoptSeen | undefined },
): readonly SandboxSeen[] {
  const { serving, adopt } = others;
  // What was taken over keeps its labels for ever, whatever becomes of the annotation.
  const { uid } = about.agent.metadata;
  const mine = serving !== undefined && (ofThisHome(serving, about.view.home, uid) || ofItsSeat(serving, about.view, uid));
  const kept = mine ? [serving] : [];
  return [...new Map([...own, ...kept, ...(adopt?.takeable ?? [])].map((box) => [box.id, box])).values()];
}

/** Undefined where the agent takes nothing over, or has a container of its own. */
export async function adoptSeen(
  w: World,
  about: { readonly agent: Agent; readonly view: View; readonly own: readonly SandboxListed[] },
): Promise<AdoptSeen | undefined> {
  const { agent, view, own } = about;
  const { uid } = agent.metadata;
  const adoption = adoptionOf(agent.metadata);
  const active = w.state.active(uid);
  if (adoption === undefined || own.some((box) => box.id === active)) return undefined;
  if (adoption.kind === "lost") return adoption.uid === uid && adoption.store !== w.store ? lostSeen(w, view, adoption) : undefined;
  if (active !== undefined || own.length > 0) return undefined;
  const foreign = await w.sandbox.inspect(adoption.container);
  return { takeable: [], elsewhere: [], ...(foreign === undefined ? {} : { foreign }) };
}

const STOPPED: ReadonlySet<string> = new Set(["created", "exited", "dead", "removing"]);

/** Why nothing is made yet in the place of what is to be taken over. */
export function adoptProblem(agent: Agent, seen: AgentSeen): Refused | undefined {
  const { adopt } = seen;
  if (adopt === undefined || seen.active !== undefined) return undefined;
  const { foreign } = adopt;
  if (foreign !== undefined && !STOPPED.has(foreign.state)) {
    const name = foreign.spec.name;
    const message = `container ${name} (${shortId(foreign.id)}) is not this gateway's and is ${foreign.state}: its owner stops it (docker stop ${name})`;
    return { reason: "AdoptWaits", message, waitMs: OWNER_LOOK_MS };
  }
  const [other] = adopt.elsewhere;
  if (other === undefined || adopt.takeable.length > 0) return undefined;
  const home = other.spec.mounts.find((mount) => mount.target === INSIDE.socket)?.source ?? "none";
  const message = `container ${other.spec.name} (${shortId(other.id)}) is of a gateway on another home (its sockets are in ${home}); it is left alone`;
  const hint = `take its workspace over instead, once its owner has stopped it: ${ADOPT}: ${other.spec.name}`;
  return { reason: "AdoptRefused", message, problems: [{ message, hint, path: PATH, object: refName(refOf(agent)) }] };
}

/** From this step on the container is the agent's: everything after it is as if it had always been. */
export function adoptStep(agent: Agent, box: SandboxSeen | undefined): readonly AgentAction[] {
  if (box === undefined) return [];
  const store = box.spec.labels[LABEL.store]?.slice(0, 8) ?? "";
  const summary = `take over container ${box.spec.name} (${shortId(box.id)}) of lost store ${store}`;
  return [step({ impact: "adopt", why: "spec" }, summary, { type: "adopt", uid: agent.metadata.uid, id: box.id, user: box.spec.user })];
}

/** A container's folders are named by its object's uid, so two objects must not come near each other in it. */
export function checkAdoption(agent: Agent, view: View): readonly Problem[] {
  const text = agent.metadata.annotations?.[ADOPT];
  if (text === undefined) return [];
  const adoption = adoptionOf(agent.metadata);
  const problem = (message: string, hint: string): readonly Problem[] => [{ message, hint, path: PATH }];
  if (adoption === undefined)
    return problem(`"${text.slice(0, 80)}" is neither STORE/UID of a lost store nor a container's name`, "beige adopt CONTAINER writes it");
  if (adoption.kind === "foreign") return [];
  if (adoption.store === view.store) return problem("that store is this gateway's own: there is nothing to take over", "leave it out");
  const { uid } = agent.metadata;
  if (adoption.uid !== uid)
    return problem(
      `agent ${agent.metadata.name} is there already, or another object has that uid: only a new one takes a container over`,
      "delete the agent first (its workspace is kept), or leave the annotation out",
    );
  const twin = view
    .list("Agent")
    .find((other) => uid10(other.metadata.uid) === uid10(uid) && refName(refOf(other)) !== refName(refOf(agent)));
  return twin === undefined ? [] : problem(`${refName(refOf(twin))} has that uid`, "name each container once");
}
