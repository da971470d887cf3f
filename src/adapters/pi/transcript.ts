// Session files without the agent loop: read along their branch, searched, and added to by a terminal that runs the loop itself.
import { createReadStream } from "node:fs";
import { open, readFile, rm, stat } from "node:fs/promises";
import { BeigeError } from "../../core/errors.ts";
import type { SessionDraft, SessionEntry, SessionFiles } from "../../core/session.ts";
import { checkEntries } from "./entries.ts";
import { sessionFile } from "./file.ts";

const FILE_MAX = 256 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;
/** The version of the format that the SDK writes. */
const VERSION = 3;

const parse = (line: string): SessionEntry | undefined => {
  try {
    const value = JSON.parse(line) as Partial<SessionEntry> | null;
    return typeof value?.id === "string" && typeof value.type === "string" && value.type !== "session"
      ? (value as SessionEntry)
      : undefined;
  } catch {
    return undefined;
  }
};

const missing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

async function entriesOf(file: string): Promise<readonly SessionEntry[]> {
  try {
    if ((await stat(file)).size > FILE_MAX) throw new BeigeError("exhausted", "the session file is too long to be read whole");
    const text = await readFile(file, "utf8");
    return text.split("\n").flatMap((line) => parse(line) ?? []);
  } catch (error) {
    if (missing(error)) return [];
    throw error;
  }
}

/** From the newest entry back to the first; a circle ends where it closes. */
export function branchOf(entries: readonly SessionEntry[]): readonly SessionEntry[] {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const branch: SessionEntry[] = [];
  for (let at = entries.at(-1); at !== undefined; at = at.parentId === null ? undefined : byId.get(at.parentId)) {
    branch.push(at);
    byId.delete(at.id);
  }
  return branch.toReversed();
}

async function find(
  file: string,
  text: string,
  bounds: { readonly limit: number; readonly maxBytes: number },
): ReturnType<SessionFiles["find"]> {
  const wanted = text.toLowerCase();
  // As it stands in the file: quotes and line breaks are escaped there.
  const escaped = JSON.stringify(wanted).slice(1, -1);
  const entries: SessionEntry[] = [];
  let [read, rest] = [0, ""];
  const take = (line: string): void => {
    if (entries.length >= bounds.limit || !line.toLowerCase().includes(escaped)) return;
    const entry = parse(line);
    if (entry !== undefined) entries.push(entry);
  };
  try {
    for await (const chunk of createReadStream(file, { encoding: "utf8", highWaterMark: CHUNK_BYTES })) {
      read += (chunk as string).length;
      const lines = (rest + (chunk as string)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) take(line);
      if (read >= bounds.maxBytes || entries.length >= bounds.limit) return { entries, read, whole: false };
    }
  } catch (error) {
    if (!missing(error)) throw error;
  }
  if (rest !== "") take(rest);
  return { entries, read, whole: true };
}

async function append(draft: SessionDraft, given: readonly unknown[], after?: string | null): ReturnType<SessionFiles["append"]> {
  const header = { type: "session", version: VERSION, id: draft.id, timestamp: new Date().toISOString(), cwd: draft.cwd };
  const { folder, id } = draft;
  const { path } = await sessionFile({ folder, id, header, ...(draft.file === undefined ? {} : { file: draft.file }) });
  const known = await entriesOf(path);
  const newest = known.at(-1)?.id ?? null;
  if (after !== undefined && after !== newest)
    throw new BeigeError("conflict", `the session went on: its newest entry is ${newest ?? "none"}`, { hint: "read the session again" });
  const entries = checkEntries(given, new Set(known.map((entry) => entry.id)));
  const file = await open(path, "a", 0o600);
  try {
    await file.writeFile(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    await file.datasync();
  } finally {
    await file.close();
  }
  return { file: path, last: entries.at(-1)?.id ?? newest ?? "" };
}

async function* bytes(file: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: CHUNK_BYTES })) yield chunk as Uint8Array;
  } catch (error) {
    if (!missing(error)) throw error;
  }
}

export const createSessionFiles = (): SessionFiles => ({
  branch: async (file) => branchOf(await entriesOf(file)),
  bytes,
  find,
  append,
  remove: (file) => rm(file, { force: true }),
});
