// Rows of the ledger as they open, in a file beside state.db until their table has them: one short write a request, not a transaction.
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { BeigeError } from "../../core/errors.ts";
import type { LedgerRow } from "../../core/ledger.ts";
import { privateFile } from "./place.ts";

export interface Opened {
  /** What a gateway that ended has left: its table may have some of them. */
  readonly left: readonly LedgerRow[];
  /** In the file when it returns, where it outlives this process. Throws `unavailable`, and then it is not. */
  add(row: LedgerRow): void;
  /** The table has them all. */
  clear(): void;
  close(): void;
}

/** Far more than rows are ever waiting. */
const READ_MAX = 16 * 1024 * 1024;

const isRow = (value: unknown): value is LedgerRow => {
  const row = (value ?? {}) as Partial<LedgerRow>;
  const texts = [row.call, row.provider, row.model, row.agent ?? "", row.key ?? "", row.session ?? ""];
  const numbers = [row.id, row.at, row.reserved?.tokens, row.reserved?.nano];
  return texts.every((each) => typeof each === "string") && numbers.every(Number.isSafeInteger) && typeof row.priced === "boolean";
};

/** Of lines that were not written whole there is nothing to be told. */
function read(fd: number, size: number): readonly LedgerRow[] {
  const data = Buffer.alloc(Math.min(size, READ_MAX));
  const text = data.toString("utf8", 0, readSync(fd, data, 0, data.length, 0));
  return text.split("\n").flatMap((line) => {
    try {
      const row: unknown = JSON.parse(line);
      return isRow(row) ? [row] : [];
    } catch {
      return [];
    }
  });
}

export function openOpened(path: string): Opened {
  privateFile(path);
  const fd = openSync(path, "r+");
  let size = fstatSync(fd).size;
  return {
    left: read(fd, size),
    add(row) {
      const line = Buffer.from(`${JSON.stringify(row)}\n`);
      try {
        for (let had = 0; had < line.length;) had += writeSync(fd, line, had, line.length - had, size + had);
        size += line.length;
      } catch (cause) {
        ftruncateSync(fd, size);
        throw new BeigeError("unavailable", `the ledger cannot be written: ${String(cause)}`, { hint: "df -h; beige doctor", cause });
      }
    },
    clear() {
      if (size === 0) return;
      ftruncateSync(fd, 0);
      size = 0;
    },
    close: () => closeSync(fd),
  };
}
