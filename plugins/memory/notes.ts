// One file of notes an agent, read and replaced as a whole, one change at a time.
import { open, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

export const KEY = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const TEXT_BYTES_MAX = 16 * 1024;
const ENTRIES_DEFAULT = 256;
const ENTRIES_MAX = 4_096;
const ALL_BYTES_MAX = 1024 * 1024;
/** Larger than all notes with their JSON around them. */
const FILE_BYTES_MAX = 16 * 1024 * 1024;
const AGENT = /^[a-z0-9][a-z0-9.-]{0,126}$/;

export interface Note {
  readonly key: string;
  readonly text: string;
  /** RFC 3339. */
  readonly at: string;
}

export interface Notes {
  /** In order of keys. */
  all(): Promise<readonly Note[]>;
  /** Why it does not fit, or nothing when it is saved. */
  save(key: string, text: string): Promise<string | undefined>;
  /** Whether it was there. */
  forget(key: string): Promise<boolean>;
}

const isNote = (value: unknown): value is Note => {
  const { key, text, at } = (value ?? {}) as Readonly<Record<string, unknown>>;
  return typeof key === "string" && typeof text === "string" && typeof at === "string";
};

/** Throws for a file that cannot be understood: it is kept as it is, and nothing is saved over it. */
async function load(path: string): Promise<readonly Note[]> {
  const stats = await stat(path).catch(() => undefined);
  if (stats === undefined) return [];
  if (stats.size > FILE_BYTES_MAX) throw new Error(`notes file ${path} is too large`);
  const value: unknown = JSON.parse(await readFile(path, "utf8"));
  if (!Array.isArray(value) || !value.every(isNote)) throw new Error(`notes file ${path} holds no notes`);
  return value;
}

/** The whole file or the old one, also after a power cut. */
async function store(path: string, notes: readonly Note[]): Promise<void> {
  const next = `${path}.next`;
  const file = await open(next, "w", 0o600);
  try {
    await file.writeFile(JSON.stringify(notes));
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(next, path).catch(async (error: unknown) => {
    await rm(next, { force: true });
    throw error;
  });
}

const byKey = (a: Note, b: Note): number => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

function tooMuch(notes: readonly Note[], entries: number): string | undefined {
  if (notes.length > entries) return `there are ${entries} keys already; forget one first`;
  const bytes = notes.reduce((sum, note) => sum + Buffer.byteLength(note.text), 0);
  return bytes > ALL_BYTES_MAX ? `all texts together have at most ${ALL_BYTES_MAX} bytes; forget one first` : undefined;
}

export function createNotes(folder: string): (agent: string, entries: unknown) => Notes {
  const turns = new Map<string, Promise<unknown>>();
  /** One after the other for each file: two saves at once must not lose one. */
  const inTurn = <T>(path: string, work: () => Promise<T>): Promise<T> => {
    const mine = (turns.get(path) ?? Promise.resolve()).then(work);
    const settled = mine.catch(() => undefined);
    turns.set(path, settled);
    void settled.then(() => turns.get(path) === settled && turns.delete(path));
    return mine;
  };
  return (agent, wanted) => {
    if (!AGENT.test(agent)) throw new Error("agent has no usable name");
    const entries = typeof wanted === "number" && Number.isInteger(wanted) && wanted > 0 ? Math.min(wanted, ENTRIES_MAX) : ENTRIES_DEFAULT;
    const path = join(folder, `${agent}.json`);
    return {
      all: () => inTurn(path, () => load(path)),
      save: (key, text) =>
        inTurn(path, async () => {
          const others = (await load(path)).filter((note) => note.key !== key);
          const notes = [...others, { key, text, at: new Date().toISOString() }].toSorted(byKey);
          const full = tooMuch(notes, entries);
          if (full === undefined) await store(path, notes);
          return full;
        }),
      forget: (key) =>
        inTurn(path, async () => {
          const notes = await load(path);
          const rest = notes.filter((note) => note.key !== key);
          if (rest.length !== notes.length) await store(path, rest);
          return rest.length !== notes.length;
        }),
    };
  };
}
