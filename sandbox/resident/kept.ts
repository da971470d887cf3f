// What outlives the gateway of its commands: a row for each that has a key, and the output that the supervisor was told to forget.
import { createHash } from "node:crypto";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { join } from "node:path";
import type { Shelf } from "../../src/core/world.ts";
import type { Piece, Spill } from "./state.ts";

const ROW = "command/";
const LINK = "supervisor/";
/** A command that says more than this cannot be taken up again: its reader bounds what it keeps far below. */
const SPILL_MAX = 32 << 20;
const HEAD = 5;

export interface KeptOptions {
  readonly shelf: Shelf;
  /** Below BEIGE_HOME; made when it is needed. */
  readonly folder: string;
}

export interface Row {
  readonly container: string;
  /** Of the sandbox when the command was started. */
  readonly boot: string;
  readonly cmd: number;
  /** Bytes of standard input, once it has ended. */
  readonly inputBytes?: number;
  /** Whoever takes it up again has the input again. */
  readonly inputKept?: boolean;
}

export interface Kept {
  row(key: string): Row | undefined;
  /** Committed when it returns. */
  begin(key: string, row: Row): Spill;
  /** For one that an earlier gateway began. */
  goOn(key: string, row: Row): { readonly past: readonly Piece[]; readonly spill: Spill };
  end(key: string): void;
  /** Containers in which commands may run that nobody reads. */
  readonly containers: () => readonly string[];
  mark(container: string): void;
  unmark(container: string): void;
  /** Forgets rows that nobody asked for: those for which `held` is false. */
  sweep(held: (key: string) => boolean): void;
}

/** Whether a command may be taken up again under this key. */
export const isKept = (shelf: Pick<Shelf, "get">, key: string): boolean => shelf.get(ROW + key) !== undefined;

function parseRow(text: string | undefined): Row | undefined {
  try {
    const { container, boot, cmd, inputBytes, inputKept } = JSON.parse(text ?? "") as Partial<Row>;
    if (typeof container !== "string" || typeof boot !== "string" || typeof cmd !== "number") return undefined;
    return {
      container,
      boot,
      cmd,
      ...(typeof inputBytes === "number" ? { inputBytes } : {}),
      ...(inputKept === true ? { inputKept } : {}),
    };
  } catch {
    return undefined;
  }
}

function encode(pieces: readonly Piece[]): Buffer {
  const parts = pieces.flatMap(({ stream, data }) => {
    const head = Buffer.alloc(HEAD);
    head[0] = stream === "stderr" ? 2 : 1;
    head.writeUInt32LE(data.length, 1);
    return [head, data];
  });
  return Buffer.concat(parts);
}

/** Whole pieces only: what a gateway was writing when it ended was not acknowledged. */
export function decode(bytes: Buffer): { readonly pieces: readonly Piece[]; readonly used: number } {
  const pieces: Piece[] = [];
  let at = 0;
  while (bytes.length - at >= HEAD && bytes.length - at - HEAD >= bytes.readUInt32LE(at + 1)) {
    const end = at + HEAD + bytes.readUInt32LE(at + 1);
    pieces.push({ stream: bytes[at] === 2 ? "stderr" : "stdout", data: bytes.subarray(at + HEAD, end) });
    at = end;
  }
  return { pieces, used: at };
}

export function createKept({ shelf, folder }: KeptOptions): Kept {
  const file = (key: string): string => join(folder, createHash("sha256").update(key).digest("hex").slice(0, 32));
  const end = (key: string): void => {
    shelf.delete(ROW + key);
    rmSync(file(key), { force: true });
  };
  const spillOf = (key: string, row: Row, had: number): Spill => {
    let bytes = had;
    let known = row;
    return {
      append(pieces) {
        if (bytes > SPILL_MAX) return;
        const data = encode(pieces);
        bytes += data.length;
        if (bytes > SPILL_MAX) return end(key);
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        appendFileSync(file(key), data, { mode: 0o600 });
      },
      inputEnded(inputBytes) {
        if (bytes > SPILL_MAX) return;
        known = { ...known, inputBytes };
        shelf.set(ROW + key, JSON.stringify(known));
      },
    };
  };
  const keys = (): readonly string[] => shelf.list(ROW).map(({ key }) => key.slice(ROW.length));
  return {
    row: (key) => parseRow(shelf.get(ROW + key)),
    begin(key, row) {
      rmSync(file(key), { force: true });
      shelf.set(ROW + key, JSON.stringify(row));
      return spillOf(key, row, 0);
    },
    goOn(key, row) {
      let bytes: Buffer = Buffer.alloc(0);
      try {
        bytes = readFileSync(file(key));
      } catch {
        // Nothing was acknowledged: the supervisor has it all.
      }
      const { pieces, used } = decode(bytes);
      if (used < bytes.length) truncateSync(file(key), used);
      return { past: pieces, spill: spillOf(key, row, used) };
    },
    end,
    containers: () => shelf.list(LINK).map(({ key }) => key.slice(LINK.length)),
    mark: (container) => shelf.set(LINK + container, ""),
    unmark: (container) => shelf.delete(LINK + container),
    sweep(held) {
      for (const key of keys()) if (!held(key)) end(key);
      const wanted = new Set(keys().map((key) => file(key)));
      try {
        for (const name of readdirSync(folder)) if (!wanted.has(join(folder, name))) rmSync(join(folder, name), { force: true });
      } catch {
        // No folder: nothing was ever spilled.
      }
    },
  };
}
