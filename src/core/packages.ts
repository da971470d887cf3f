// Packages that an agent's image has besides its base's: their names, the image that holds them, and what a build of it says. Pure.
import { fingerprint } from "./fingerprint.ts";
import type { Agent } from "./resource.ts";

/** Repository of the images that are built here. */
export const DERIVED = "beige-derived";
/** Moves when the same packages on the same base would be another image. What runs stays as it is. */
export const RECIPE = 1;
/** On a sandbox: the packages that it was made with, and the base as `REF ID`. */
export const PACKAGES_LABEL = "beige.dev/packages";
export const BASE_LABEL = "beige.dev/base";
/** On a build's container and on its image: JSON of `Derived`. */
export const DERIVED_LABEL = "beige.dev/derived";
/** What beige.dev/kind says of a container that builds an image; beige.dev/uid is then the agent that began it. */
export const BUILD = "ImageBuild";

/** A package may have a version: NAME=VERSION, the version with `*` at will. At the end, apt-get takes - for "remove it" and + for "install any". */
const PACKAGE = /^([a-z0-9](?:[a-z0-9._+-]{0,98}[a-z0-9+])?)(?:=([A-Za-z0-9](?:[A-Za-z0-9.+:~_*-]{0,98}[A-Za-z0-9.~_*])?))?$/;

export interface Derived {
  /** Id of the image that the packages are put into. */
  readonly base: string;
  /** Sorted, each once. */
  readonly packages: readonly string[];
}

export const packagesOf = ({ spec }: Pick<Agent, "spec">): readonly string[] => [...new Set(spec.sandbox.packages)].toSorted();

/** As a label has it; undefined for none. */
export const packagesText = (packages: readonly string[]): string | undefined => (packages.length === 0 ? undefined : packages.join(" "));

const hashOf = ({ base, packages }: Derived): string => fingerprint({ base, packages, recipe: RECIPE }).slice(0, 24);

export const derivedRef = (derived: Derived): string => `${DERIVED}:${hashOf(derived)}`;

export const isDerived = (image: string): boolean => image.startsWith(`${DERIVED}:`);

/** Of the one container that builds this image, whoever asked for it. */
export const buildName = (ref: string): string => `beige-build-${ref.slice(DERIVED.length + 1)}`;

/** The label of a build or of its image; undefined for anything else. */
export function readDerived(label: string | undefined): Derived | undefined {
  if (label === undefined) return undefined;
  let value: Partial<Derived> | null;
  try {
    value = JSON.parse(label) as Partial<Derived> | null;
  } catch {
    return undefined;
  }
  const { base, packages } = value ?? {};
  const good = typeof base === "string" && Array.isArray(packages) && packages.every((each) => typeof each === "string");
  return good ? { base, packages } : undefined;
}

/** Why an entry cannot be asked for beside the earlier ones; undefined when it can. */
export function packageProblem(entry: string, earlier: readonly string[]): { readonly message: string; readonly hint: string } | undefined {
  const name = PACKAGE.exec(entry)?.[1];
  if (name === undefined) return { message: `'${entry.slice(0, 60)}' is no package`, hint: "write NAME or NAME=VERSION" };
  const twice = earlier.find((other) => other !== entry && PACKAGE.exec(other)?.[1] === name);
  return twice === undefined ? undefined : { message: `packages '${twice}' and '${entry}' are one`, hint: "list one of them" };
}

/** A build that came to nothing, kept in the status of whoever saw it: all who want the image wait for the same next try. */
export interface BuildFailure {
  readonly ref: string;
  readonly atMs: number;
  readonly tries: number;
  readonly message: string;
}

const FIRST_PAUSE_MS = 60_000;
const LAST_PAUSE_MS = 30 * 60_000;

/** How long nobody tries again. */
export const pauseMs = ({ tries }: BuildFailure): number => Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 10));

export function readFailure(value: unknown, ref: string): BuildFailure | undefined {
  const said = value as Partial<BuildFailure> | null | undefined;
  if (typeof said !== "object" || said === null || said.ref !== ref) return undefined;
  const { atMs, tries, message } = said;
  return typeof atMs === "number" && typeof tries === "number" && typeof message === "string" ? { ref, atMs, tries, message } : undefined;
}
