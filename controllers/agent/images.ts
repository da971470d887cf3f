// The image that a sandbox is made of: the one that its manifest names, or one that is built of it with packages.
import type { View } from "../../src/core/kind.ts";
import {
  BASE_LABEL,
  BUILD,
  DERIVED_LABEL,
  derivedRef,
  isDerived,
  PACKAGES_LABEL,
  packagesOf,
  packagesText,
  pauseMs,
  readDerived,
  readFailure,
  type BuildFailure,
} from "../../src/core/packages.ts";
import type { Agent } from "../../src/core/resource.ts";
import { LABEL, type BuildSeen, type ImageBuild, type Sandbox, type SandboxListed, type SandboxSeen } from "../../src/core/sandbox.ts";
import type { World } from "../../src/core/world.ts";
import { quietly, removeBox, step, SPEC, type AgentAction, type Cause } from "./action.ts";
import { backendOf, type Box } from "./box.ts";
import { imageIdOf, listBoxes } from "./listing.ts";
import type { Body } from "./live.ts";
import type { AgentSeen } from "./seen.ts";

/** Longest time for a build. */
export const BUILD_LIMIT_MS = 15 * 60_000;
/** The container's own limit comes after the gateway's. */
const SLACK_MS = 60_000;
const LOOK_MS = 1000;

/** A container that builds an image, of this store. */
export interface BuildListed {
  readonly id: string;
  readonly name: string;
  /** Who began it. */
  readonly uid: string;
  readonly ref: string;
  readonly packages: readonly string[];
  readonly running: boolean;
}

export interface ImagesSeen {
  /** Absent where the manifest names no packages. */
  readonly wanted?: {
    readonly packages: readonly string[];
    /** Id of the manifest's image, and the name of the one to be built of it; absent while the engine does not have it. */
    readonly base?: string;
    readonly ref?: string;
    readonly build?: BuildSeen;
  };
  readonly builds: readonly BuildListed[];
}

function buildsOf(listed: readonly SandboxListed[]): readonly BuildListed[] {
  return listed.flatMap(({ id, name, labels, state }) => {
    const derived = labels[LABEL.kind] === BUILD ? readDerived(labels[DERIVED_LABEL]) : undefined;
    if (derived === undefined) return [];
    const { packages } = derived;
    return [{ id, name, uid: labels[LABEL.uid] ?? "", ref: derivedRef(derived), packages, running: state === "running" }];
  });
}

async function wantedSeen(w: World, agent: Agent): Promise<Pick<AgentSeen, "imageId"> & Pick<ImagesSeen, "wanted">> {
  const packages = packagesOf(agent);
  const backend = backendOf(agent);
  const base = await imageIdOf(w, { image: agent.spec.sandbox.image, ...backend });
  if (packages.length === 0 || backend.backend !== undefined) return base === undefined ? {} : { imageId: base };
  if (base === undefined) return { wanted: { packages } };
  const ref = derivedRef({ base, packages });
  const imageId = await imageIdOf(w, { image: ref });
  if (imageId !== undefined) return { imageId, wanted: { packages, base, ref } };
  const build = await w.sandbox.builds?.seen(ref);
  return { wanted: { packages, base, ref, ...(build === undefined ? {} : { build }) } };
}

export async function imagesSeen(w: World, agent: Agent): Promise<Pick<AgentSeen, "imageId" | "images">> {
  const [{ imageId, wanted }, listed] = await Promise.all([wantedSeen(w, agent), listBoxes(w)]);
  const builds = buildsOf(listed);
  const images = wanted === undefined && builds.length === 0 ? {} : { images: { builds, ...(wanted === undefined ? {} : { wanted }) } };
  return { ...(imageId === undefined ? {} : { imageId }), ...images };
}

/** The container of the built image, with a note of what it was built of. */
export function withPackages(box: Box, seen: AgentSeen): Box {
  const { base, ref } = seen.images?.wanted ?? {};
  if (base === undefined || ref === undefined) return box;
  return { ...box, image: ref, labels: { ...box.labels, [BASE_LABEL]: `${box.image} ${base}` } };
}

interface About {
  readonly agent: Agent;
  readonly seen: AgentSeen;
  readonly view: View;
}

const others = ({ agent, view }: About): readonly Agent[] =>
  (view.list("Agent") as readonly Agent[]).filter(
    ({ metadata }) => metadata.uid !== agent.metadata.uid && metadata.deletionTimestamp === undefined,
  );

/** The newest failure of this image, whichever agent saw it. */
function failureOf(about: About, ref: string): BuildFailure | undefined {
  const all = [about.agent, ...others(about)].flatMap(({ status }) => readFailure(status?.observed?.["build"], ref) ?? []);
  return all.toSorted((a, b) => b.atMs - a.atMs)[0];
}

const waiting = (message: string): Body => ({ actions: [], pending: { reason: "ImageBuilding", message }, wait: { ms: LOOK_MS } });

/** A build is over: its container goes, the failure stays in the status. */
function failed(about: About, build: BuildSeen, { ref, message }: { readonly ref: string; readonly message: string }): Body {
  const { now } = about.view;
  const before = failureOf(about, ref);
  // Another agent may have told of this very build.
  const known = before !== undefined && before.atMs >= Date.parse(build.startedAt ?? "") ? before : undefined;
  const failure = known ?? { ref, atMs: now, tries: (before?.tries ?? 0) + 1, message };
  const cause: Cause = { impact: "live", why: "image" };
  return { ...rests(failure, now), actions: [removeBox(cause, build.id, `of the failed build of ${ref}`)] };
}

/** Nothing is left of one that a clock which was set back shows in the future. */
const restOf = (failure: BuildFailure, now: number): number =>
  failure.atMs > now ? 0 : Math.max(0, failure.atMs + pauseMs(failure) - now);

function rests(failure: BuildFailure, now: number): Body {
  const restMs = restOf(failure, now);
  const message = `image ${failure.ref} could not be built: ${failure.message}`;
  return { actions: [], pending: { reason: "ImageBuildFailed", message }, wait: { ms: Math.max(restMs, LOOK_MS) }, build: failure };
}

function beginning(about: About, wanted: { readonly base: string; readonly ref: string; readonly packages: readonly string[] }): Body {
  const { agent, seen, view } = about;
  const { base, ref, packages } = wanted;
  const failure = failureOf(about, ref);
  if (failure !== undefined && restOf(failure, view.now) > 0) return rests(failure, view.now);
  const kept = failure === undefined ? {} : { build: failure };
  const busy = seen.images?.builds.find((build) => build.running && build.ref !== ref);
  if (busy !== undefined) return { ...waiting(`image ${ref} waits for the build of ${busy.ref}`), ...kept };
  const labels = { [LABEL.store]: view.store, [LABEL.kind]: BUILD, [LABEL.uid]: agent.metadata.uid };
  const { proxy, network = "default" } = view.host.build ?? {};
  const limitMs = BUILD_LIMIT_MS + SLACK_MS;
  const build = { ref, base, packages, labels, network, limitMs, ...(proxy === undefined ? {} : { proxy }) };
  const summary = `build image ${ref}: ${agent.spec.sandbox.image} with ${packages.join(", ")}`;
  return { ...waiting(`${summary}: it starts`), ...kept, actions: [step(SPEC, summary, { type: "image-build", build })] };
}

/** What brings a missing image; undefined where nobody can build it. */
export function planImage(about: About): Body | undefined {
  const { agent, seen, view } = about;
  const { base, ref, packages = [], build } = seen.images?.wanted ?? {};
  if (base === undefined || ref === undefined) return undefined;
  if (build === undefined || build.state === "created") return beginning(about, { base, ref, packages });
  const before = failureOf(about, ref);
  const kept = before === undefined ? {} : { build: before };
  const what = `image ${ref} is built: ${agent.spec.sandbox.image} with ${packages.join(", ")}`;
  if (build.state === "failed") return failed(about, build, { ref, message: build.message });
  if (build.state === "done") {
    const finish = step(SPEC, `finish image ${ref}`, { type: "image-finish", ref });
    return { ...waiting(`${what}: it is made of the container`), ...kept, actions: [finish] };
  }
  if (view.now - Date.parse(build.startedAt ?? "") > BUILD_LIMIT_MS)
    return failed(about, build, { ref, message: `it took longer than ${BUILD_LIMIT_MS / 1000} s, last: ${build.doing}` });
  return { ...waiting(`${what}: ${build.doing}`), ...kept };
}

/** Agents that may want the same: the base is not compared, so one too many is left. */
const wantedByOthers = (about: About, packages: readonly string[]): boolean =>
  others(about).some((other) => packagesText(packagesOf(other)) === packagesText(packages));

/** Containers of builds that nobody waits for any more. */
export function sweepBuilds(about: About, deleting = false): readonly AgentAction[] {
  const { agent, seen, view } = about;
  const { wanted, builds = [] } = seen.images ?? {};
  const uids = new Set((view.list("Agent") as readonly Agent[]).map(({ metadata }) => metadata.uid));
  const needless = builds.filter(({ uid, ref, packages }) => {
    if (!deleting && ref === wanted?.ref) return seen.imageId !== undefined;
    return (uid === agent.metadata.uid || !uids.has(uid)) && !wantedByOthers(about, packages);
  });
  return needless.map(({ id, name }) => removeBox({ impact: "live", why: "prune" }, id, name));
}

/** An image that was built goes with its last container: the engine knows which that is. */
export function dropImages(about: About, boxes: readonly SandboxSeen[], deleting = false): readonly AgentAction[] {
  const { wanted } = about.seen.images ?? {};
  const made = boxes.map(({ spec }) => ({ ref: spec.image, packages: spec.labels[PACKAGES_LABEL]?.split(" ") ?? [] }));
  const own = wanted?.ref === undefined || about.seen.imageId === undefined ? [] : [{ ref: wanted.ref, packages: wanted.packages }];
  const gone = [...made, ...(deleting ? own : [])].filter(
    ({ ref, packages }) => isDerived(ref) && (deleting || ref !== wanted?.ref) && !wantedByOthers(about, packages),
  );
  const refs = [...new Set(gone.map(({ ref }) => ref))];
  return refs.map((ref) =>
    quietly({ impact: "live", why: "prune" }, `remove image ${ref} unless it is in use`, { type: "image-drop", ref }),
  );
}

/** The last build that was begun on an engine: two agents never look at the same moment. */
const begun = new WeakMap<Sandbox, Promise<void>>();

/** One build at a time; whoever comes second sees the other at his next look, which is at once. */
function begin(w: World, build: ImageBuild, signal: AbortSignal): Promise<void> {
  const before = begun.get(w.sandbox) ?? Promise.resolve();
  const run = before.then(async () => {
    const busy = buildsOf(await w.sandbox.list(w.store, signal)).some((other) => other.running && other.ref !== build.ref);
    if (!busy) await w.sandbox.builds?.begin(build, signal);
  });
  begun.set(
    w.sandbox,
    run.catch(() => undefined),
  );
  return run;
}

/** Does what is said above; false for anything else. */
export async function actImage(w: World, action: AgentAction, signal: AbortSignal): Promise<boolean> {
  switch (action.type) {
    case "image-build":
      await begin(w, action.build, signal);
      return true;
    case "image-finish":
      await w.sandbox.builds?.finish(action.ref, signal);
      return true;
    case "image-drop":
      await w.sandbox.builds?.drop(action.ref, signal);
      return true;
    default:
      return false;
  }
}
