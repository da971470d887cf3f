// Holds the engine's answers to the shape that is read from them: what answers at the socket may be a proxy, a half-dead engine or
// something else, and what it says must never pass for "there is no such container".
import { BeigeError } from "../../src/core/errors.ts";
import type { ImageInspected, Info, Inspected, Listed } from "./words.ts";

type Unknowns = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is Unknowns => value !== null && typeof value === "object" && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isWord = (value: unknown): boolean => isText(value) && value !== "";
const isId = (value: unknown): boolean => isText(value) && /^[0-9a-f]{12,128}$/.test(value);
const texts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const names = (value: unknown): boolean => isRecord(value) && Object.values(value).every(isText);
/** The engine writes null for what is empty. */
const orNothing = (test: (value: unknown) => boolean, value: unknown): boolean => value === null || value === undefined || test(value);

function isInfo(value: unknown): boolean {
  return isRecord(value) && isText(value["ServerVersion"]) && orNothing(texts, value["SecurityOptions"]);
}

function isListed(value: unknown): boolean {
  return (
    isRecord(value) &&
    isWord(value["Id"]) &&
    isWord(value["State"]) &&
    orNothing(texts, value["Names"]) &&
    orNothing(names, value["Labels"])
  );
}

function isMount(value: unknown): boolean {
  return (
    isRecord(value) && isText(value["Type"]) && isText(value["Source"]) && isText(value["Destination"]) && typeof value["RW"] === "boolean"
  );
}

function isState(value: unknown): boolean {
  return isRecord(value) && isWord(value["Status"]) && typeof value["Running"] === "boolean" && isText(value["StartedAt"]);
}

function isConfig(value: unknown): boolean {
  return (
    isRecord(value) &&
    isText(value["User"]) &&
    isText(value["Image"]) &&
    orNothing(texts, value["Env"]) &&
    orNothing(texts, value["Cmd"]) &&
    orNothing(names, value["Labels"])
  );
}

function isInspected(value: unknown): boolean {
  return (
    isRecord(value) &&
    isWord(value["Id"]) &&
    isWord(value["Name"]) &&
    isText(value["Image"]) &&
    isState(value["State"]) &&
    isConfig(value["Config"]) &&
    isRecord(value["HostConfig"]) &&
    orNothing((mounts) => Array.isArray(mounts) && mounts.every(isMount), value["Mounts"])
  );
}

function isImage(value: unknown): boolean {
  if (!isRecord(value) || !isWord(value["Id"])) return false;
  const config = value["Config"] ?? {};
  return (
    isRecord(config) && orNothing(texts, config["Env"]) && orNothing(names, config["Labels"]) && orNothing(isRecord, config["Volumes"])
  );
}

function hold(fits: boolean, what: string): void {
  if (fits) return;
  throw new BeigeError("unavailable", `what answers as the docker engine does not say ${what} as docker does`, {
    hint: "see what is behind its socket: docker info",
  });
}

export function info(raw: unknown): Info {
  hold(isInfo(raw), "what it is");
  return raw as Info;
}

export function listed(raw: unknown): readonly Listed[] {
  hold(Array.isArray(raw) && raw.every(isListed), "which containers there are");
  return raw as readonly Listed[];
}

/** Of the container that was asked for, by its ID, the beginning of that, or its name: answers that came in another order are nobody's. */
export function inspected(raw: unknown, asked: string): Inspected {
  hold(isInspected(raw), "what a container is");
  const { Id, Name } = raw as Inspected;
  hold(Id.startsWith(asked) || Name.replace(/^\//, "") === asked, `which container it speaks of when asked for ${asked.slice(0, 80)}`);
  return raw as Inspected;
}

export function image(raw: unknown): ImageInspected {
  hold(isImage(raw), "what an image is");
  return raw as ImageInspected;
}

/** Bytes that a container has beside its image's; asked for with its size. */
export function written(raw: unknown): number {
  const bytes = isRecord(raw) ? (raw["SizeRw"] ?? 0) : undefined;
  hold(typeof bytes === "number", "how much a container has written");
  return bytes as number;
}

/** Of something that was just made. */
export function id(raw: unknown): string {
  hold(isId(raw), "what it made");
  return raw as string;
}
