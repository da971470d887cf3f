// How a container differs from the wanted one, field by field in the manifest's words. Pure.
import type { FieldChange } from "../../src/core/kind.ts";
import { RESTARTED_AT } from "../../src/core/resource.ts";
import { BASE_LABEL, PACKAGES_LABEL } from "../../src/core/packages.ts";
import { showBytes } from "../../src/core/quantity.ts";
import { LABEL, type Mount, type SandboxSeen, type SandboxSpec } from "../../src/core/sandbox.ts";
import { GATEWAY_ENV, INSIDE, type Box } from "./box.ts";

export interface Difference {
  /** Docker changes these while the container runs. */
  readonly limits: readonly FieldChange[];
  /** These need another container. */
  readonly replace: readonly FieldChange[];
  /** The tag of the image names another image now. */
  readonly imageMoved: boolean;
  /** An older beige made it: what the gateway itself puts in is not compared. */
  readonly outdated: boolean;
}

export interface Compared {
  readonly box: Box;
  readonly seen: SandboxSeen;
  readonly user?: SandboxSpec["user"];
  readonly imageId?: string;
}

const changed = (path: string, before: unknown, after: unknown): readonly FieldChange[] =>
  before === after ? [] : [{ path, before, after, forces: true, impact: "replace" }];

/** Swap is set together with memory, in place. */
const isSwap = (deviation: string): boolean => deviation.startsWith("MemorySwap=");

function limitChanges(box: Box, seen: SandboxSpec): readonly FieldChange[] {
  const changes: FieldChange[] = [];
  const impact = "update";
  if (seen.memoryBytes !== box.memoryBytes)
    changes.push({ path: "sandbox.resources.memory", before: showBytes(seen.memoryBytes), after: showBytes(box.memoryBytes), impact });
  else if (seen.hardening?.some(isSwap) === true)
    changes.push({
      path: "sandbox.resources.memory",
      before: `${showBytes(seen.memoryBytes)} and swap`,
      after: showBytes(box.memoryBytes),
      impact,
    });
  if (seen.cpus !== box.cpus) changes.push({ path: "sandbox.resources.cpus", before: seen.cpus, after: box.cpus, impact });
  if (seen.pids !== box.pids) changes.push({ path: "sandbox.resources.pids", before: seen.pids, after: box.pids, impact });
  return changes;
}

const keys = (a: object, b: object): readonly string[] => [...new Set([...Object.keys(a), ...Object.keys(b)])].toSorted();

function envChanges(box: Box, seen: SandboxSpec, outdated: boolean): readonly FieldChange[] {
  return keys(box.env, seen.env).flatMap((name) => {
    const own = (GATEWAY_ENV as readonly string[]).includes(name);
    if (own && outdated) return [];
    return changed(name === "PATH" ? "sandbox.path" : `sandbox.env.${name}`, seen.env[name], box.env[name]);
  });
}

const mountText = (mount: Mount | undefined): string | undefined =>
  mount === undefined ? undefined : `${mount.source} (${mount.readOnly ? "read-only" : "writable"})`;

function mountChanges(box: Box, seen: SandboxSpec, outdated: boolean): readonly FieldChange[] {
  const own: readonly string[] = [INSIDE.socket, INSIDE.launchers, INSIDE.packages];
  const at = (mounts: readonly Mount[]): ReadonlyMap<string, Mount> => new Map(mounts.map((mount) => [mount.target, mount]));
  const before = at(seen.mounts);
  const after = at(box.mounts);
  const targets = [...new Set([...before.keys(), ...after.keys()])].toSorted();
  return targets.flatMap((target) => {
    if (outdated && own.includes(target)) return [];
    const path = target === INSIDE.workspace ? "workspace.path" : `sandbox.mounts[${target}]`;
    return changed(path, mountText(before.get(target)), mountText(after.get(target)));
  });
}

/** A restart that was asked for since the container was made; one that is no longer asked for changes nothing. */
function restartChanges(box: Box, seen: SandboxSpec): readonly FieldChange[] {
  const wanted = box.labels[LABEL.restart];
  return wanted === undefined ? [] : changed(`metadata.annotations[${RESTARTED_AT}]`, seen.labels[LABEL.restart], wanted);
}

/** runc is what an engine uses unless told. */
const plainRuntime = (runtime: string | undefined): string | undefined => (runtime === "runc" ? undefined : runtime);

const imageText = (ref: string, id: string): string => `${ref} (${id.replace(/^sha256:/, "").slice(0, 12)})`;

/** REF and ID of the image that packages were put into. */
const baseOf = ({ labels }: Pick<SandboxSpec, "labels">): readonly string[] => labels[BASE_LABEL]?.split(" ") ?? [];

/** Of one with packages: the image itself may have been built again, or by another recipe, and is not compared. */
function baseChanges(box: Box, seen: SandboxSpec): readonly FieldChange[] {
  const [before = "", was = ""] = baseOf(seen);
  const [after = "", is] = baseOf(box);
  return is === undefined || is === was ? [] : changed("sandbox.image", imageText(before, was), imageText(after, is));
}

function imageChanges({ box, seen, imageId }: Compared): readonly FieldChange[] {
  const [had, has] = [seen.spec.labels[PACKAGES_LABEL], box.labels[PACKAGES_LABEL]];
  const packages = changed("sandbox.packages", had?.split(" ").join(", "), has?.split(" ").join(", "));
  if (packages.length > 0) return packages;
  if (has !== undefined) return baseChanges(box, seen.spec);
  const before = seen.spec.image;
  if (imageId === undefined || imageId === seen.imageId) return before === box.image ? [] : changed("sandbox.image", before, box.image);
  return changed("sandbox.image", imageText(before, seen.imageId), imageText(box.image, imageId));
}

function moved({ box, seen, imageId }: Compared): boolean {
  if (box.labels[PACKAGES_LABEL] !== undefined) return baseChanges(box, seen.spec).length > 0 && baseOf(seen.spec)[0] === baseOf(box)[0];
  return imageId !== undefined && imageId !== seen.imageId && seen.spec.image === box.image;
}

export function compare(compared: Compared): Difference {
  const { box, seen, user } = compared;
  const outdated = seen.spec.labels[LABEL.gatewayHash] !== box.labels[LABEL.gatewayHash];
  const hardening = (spec: Partial<SandboxSpec>): string | undefined =>
    spec.hardening?.filter((one) => !isSwap(one)).join(", ") || undefined;
  const seenUser = `${seen.spec.user.uid}:${seen.spec.user.gid}`;
  return {
    limits: limitChanges(box, seen.spec),
    replace: [
      ...imageChanges(compared),
      ...changed("sandbox.backend", seen.spec.backend ?? "docker", box.backend ?? "docker"),
      ...changed("sandbox.profile", seen.spec.profile, box.profile),
      ...changed("sandbox.runtime", plainRuntime(seen.spec.runtime), plainRuntime(box.runtime)),
      ...changed("sandbox.network.mode", seen.spec.network, box.network),
      ...(seen.spec.tmpBytes === box.tmpBytes
        ? []
        : changed("sandbox.resources.tmp", showBytes(seen.spec.tmpBytes), showBytes(box.tmpBytes))),
      ...(user === undefined ? [] : changed("sandbox.user", seenUser, `${user.uid}:${user.gid}`)),
      ...(outdated ? [] : changed("sandbox.hardening", hardening(seen.spec), undefined)),
      ...envChanges(box, seen.spec, outdated),
      ...mountChanges(box, seen.spec, outdated),
      ...restartChanges(box, seen.spec),
    ],
    imageMoved: moved(compared),
    outdated,
  };
}

/** Whether the container was made for this spec, so that a difference came from outside. */
export const madeFor = (box: Box, seen: SandboxSeen): boolean =>
  seen.spec.labels[LABEL.specHash] === box.labels[LABEL.specHash] && seen.spec.labels[LABEL.hashVersion] === box.labels[LABEL.hashVersion];
