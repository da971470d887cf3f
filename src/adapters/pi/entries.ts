// Checks entries that come from outside before they go into a session file: a bad one would spoil the conversation for good.
import { BeigeError } from "../../core/errors.ts";
import type { SessionEntry } from "../../core/session.ts";

const ENTRIES_MAX = 1000;
const ID_MAX = 64;
/** The gateway's own entries: it alone says what was answered. */
const OWN = "beige.";

type Fields = Readonly<Record<string, unknown>>;
const isText = (value: unknown): boolean => typeof value === "string";
const isId = (value: unknown): boolean => typeof value === "string" && /^[\w.-]+$/.test(value) && value.length <= ID_MAX;
const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Signatures and the like beside these are a provider's own. */
const PARTS: Readonly<Record<string, (part: Fields) => boolean>> = {
  text: (part) => isText(part["text"]),
  thinking: (part) => isText(part["thinking"]),
  image: (part) => isText(part["data"]) && isText(part["mimeType"]),
  toolCall: (part) => isText(part["id"]) && isText(part["name"]) && isObject(part["arguments"]),
};
function isPart(part: unknown): boolean {
  if (!isObject(part)) return false;
  const type = part["type"];
  return typeof type === "string" && Object.hasOwn(PARTS, type) && PARTS[type]?.(part) === true;
}
const isContent = (value: unknown): boolean => isText(value) || (Array.isArray(value) && value.every(isPart));

const MESSAGES: Readonly<Record<string, (message: Fields) => boolean>> = {
  user: (message) => isContent(message["content"]),
  system: () => true,
  // A command that a person ran in the sandbox.
  bashExecution: (message) => isText(message["command"]) && isText(message["output"]),
  assistant: (message) =>
    Array.isArray(message["content"]) &&
    isContent(message["content"]) &&
    isText(message["provider"]) &&
    isText(message["model"]) &&
    isText(message["stopReason"]) &&
    isObject(message["usage"]),
  toolResult: (message) =>
    Array.isArray(message["content"]) && isContent(message["content"]) && isText(message["toolCallId"]) && isText(message["toolName"]),
};

function isMessage(value: unknown): boolean {
  if (!isObject(value)) return false;
  const role = value["role"];
  return typeof role === "string" && Object.hasOwn(MESSAGES, role) && MESSAGES[role]?.(value) === true;
}

const ENTRIES: Readonly<Record<string, (entry: Fields) => boolean>> = {
  message: (entry) => isMessage(entry["message"]),
  thinking_level_change: (entry) => isText(entry["thinkingLevel"]),
  model_change: (entry) => isText(entry["provider"]) && isText(entry["modelId"]),
  usage: (entry) => isObject(entry["usage"]),
  compaction: (entry) => isText(entry["summary"]) && isId(entry["firstKeptEntryId"]) && typeof entry["tokensBefore"] === "number",
  branch_summary: (entry) => isText(entry["summary"]) && isText(entry["fromId"]),
  custom: (entry) => isText(entry["customType"]) && !String(entry["customType"]).startsWith(OWN),
  custom_message: (entry) => isText(entry["customType"]) && isContent(entry["content"]) && typeof entry["display"] === "boolean",
  context_edit: (entry) => isId(entry["targetId"]) && typeof entry["replacement"] === "object",
  label: (entry) => isId(entry["targetId"]) && (entry["label"] === undefined || isText(entry["label"])),
  session_info: (entry) => entry["name"] === undefined || isText(entry["name"]),
};

/** Each has a form that the loop can read, an id of its own, and a parent that is there. Throws `invalid` naming the entry. */
export function checkEntries(given: readonly unknown[], known: Set<string>): readonly SessionEntry[] {
  if (given.length === 0 || given.length > ENTRIES_MAX) throw new BeigeError("invalid", `entries must have 1 to ${ENTRIES_MAX} entries`);
  const bad = (at: number, why: string): BeigeError => new BeigeError("invalid", `entries[${at}] ${why}`);
  return given.map((each, at) => {
    if (!isObject(each)) throw bad(at, "must be an object");
    const entry = each;
    const { type, id, parentId, timestamp } = entry;
    if (typeof type !== "string" || !Object.hasOwn(ENTRIES, type)) throw bad(at, "has no type of a session entry");
    if (!isId(id)) throw bad(at, `needs an id of at most ${ID_MAX} letters and digits`);
    if (known.has(id as string)) throw bad(at, `repeats the id ${String(id)}`);
    if (parentId === null ? known.size > 0 : !known.has(parentId as string)) throw bad(at, "has a parentId that is not in the session");
    if (typeof timestamp !== "string" || Number.isNaN(Date.parse(timestamp))) throw bad(at, "needs a timestamp");
    if (ENTRIES[type]?.(entry) !== true) throw bad(at, `is not a whole ${type} entry`);
    known.add(id as string);
    return entry as unknown as SessionEntry;
  });
}
