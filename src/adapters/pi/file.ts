// Session files: made, mended after a crash, or put aside when they are no session at all.
import { closeSync, openSync, writeSync } from "node:fs";
import { mkdir, open, readFile, rename, stat, truncate, writeFile } from "node:fs/promises";

/** Longer files are put aside unread: no model could take them. */
const FILE_MAX = 256 * 1024 * 1024;
const NEWLINE = 10;

export interface SessionFile {
  readonly path: string;
  /** What was mended or put aside. */
  readonly note?: string;
}

interface Line {
  id?: unknown;
  parentId?: unknown;
  type?: unknown;
}

const parse = (text: string): Line | undefined => {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
};

const isHeader = (line: Line | undefined): boolean => line?.type === "session" && typeof line.id === "string";

/** A new file with its header, readable by the gateway alone. Made and filled in one go: a kill leaves no empty one. */
async function create(path: string, header: object): Promise<void> {
  const made = openSync(path, "wx", 0o600);
  try {
    writeSync(made, `${JSON.stringify(header)}\n`);
  } finally {
    closeSync(made);
  }
  const file = await open(path, "r+");
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

async function aside(path: string): Promise<string> {
  const bad = `${path}.bad-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  await rename(path, bad);
  return bad;
}

/** Joins what is left of a file with bad lines in the middle: each entry hangs on the one before it if its own parent is gone. */
function mend(lines: readonly (Line | undefined)[]): readonly Line[] {
  const known = new Set<unknown>([null]);
  const kept: Line[] = [];
  let last: unknown = null;
  for (const line of lines) {
    if (line === undefined) continue;
    if (line.type !== "session") {
      if (typeof line.id !== "string") continue;
      if (!known.has(line.parentId)) line.parentId = last;
      known.add(line.id);
      last = line.id;
    }
    kept.push(line);
  }
  return kept;
}

async function repaired(path: string): Promise<{ readonly usable: boolean; readonly note?: string }> {
  const { size } = await stat(path);
  if (size > FILE_MAX) return { usable: false, note: `session file too long, put aside as ${await aside(path)}` };
  const bytes = await readFile(path);
  // In bytes: a line may be torn inside a character.
  const whole = bytes.lastIndexOf(NEWLINE) + 1;
  const texts = bytes.toString("utf8", 0, whole).split("\n").slice(0, -1);
  const lines = texts.map(parse);
  if (!isHeader(lines[0])) {
    return {
      usable: false,
      ...(size === 0 ? { note: "session file was empty" } : { note: `not a session file, put aside as ${await aside(path)}` }),
    };
  }
  const bad = lines.filter((line, index) => line === undefined && (texts[index] ?? "").trim() !== "").length;
  if (bad > 0) {
    const old = await aside(path);
    await writeFile(
      path,
      mend(lines)
        .map((line) => `${JSON.stringify(line)}\n`)
        .join(""),
      { mode: 0o600, flush: true },
    );
    return { usable: true, note: `${bad} unreadable lines left out, the file as it was is ${old}` };
  }
  if (whole === bytes.length) return { usable: true };
  // A whole line without its end is cut as well: nobody was told that it had been written.
  await truncate(path, whole);
  return { usable: true, note: "a half-written last line was cut" };
}

const missing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

/** The file to go on with. A missing or hopeless one is replaced by a new one under the same name. */
export async function sessionFile(ask: {
  readonly folder: string;
  readonly file?: string;
  readonly id: string;
  readonly header: object;
}): Promise<SessionFile> {
  await mkdir(ask.folder, { recursive: true, mode: 0o700 });
  const path = ask.file?.startsWith(`${ask.folder}/`) === true && !ask.file.includes("/../") ? ask.file : `${ask.folder}/${ask.id}.jsonl`;
  let note: string | undefined;
  try {
    const state = await repaired(path);
    if (state.usable) return { path, ...(state.note === undefined ? {} : { note: state.note }) };
    note = state.note;
    if (note === "session file was empty") await aside(path);
  } catch (error) {
    if (!missing(error)) throw error;
    if (ask.file !== undefined) note = "session file was missing, a new one was started";
  }
  await create(path, ask.header);
  return { path, ...(note === undefined ? {} : { note }) };
}
