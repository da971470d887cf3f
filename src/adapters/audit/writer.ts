// Writes rows to a chain's growing file: chained, one write a batch, one fdatasync where somebody waits for it.
import { closeSync, fdatasync, ftruncateSync, renameSync, statSync, writeSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { AuditRow } from "../../core/audit.ts";
import { type ChainHead, EMPTY, sealRow, segmentName } from "../../core/chain.ts";
import type { Clock } from "../../core/world.ts";
import { type Growing, openGrowing } from "./tail.ts";

export type Row = Omit<AuditRow, "seq" | "prev_hash" | "hash">;

export interface WriterOptions {
  readonly path: string;
  readonly clock: Pick<Clock, "after">;
  readonly rotateBytes: number;
  /** How long written rows may wait for somebody's flush. */
  readonly syncMs: number;
  /** Row that tells of bytes which were cut off. */
  readonly recovered: (cut: { readonly bytes: number; readonly hash: string }) => Row;
}

const sync = (fd: number): Promise<void> => new Promise((done, fail) => fdatasync(fd, (error) => (error === null ? done() : fail(error))));

/** All of the bytes, or an error with the file as it was. */
function append(file: Growing, data: Buffer): void {
  try {
    for (let had = 0; had < data.length;) had += writeSync(file.fd, data, had);
  } catch (error) {
    ftruncateSync(file.fd, file.size);
    throw error;
  }
}

export class ChainWriter {
  readonly #options: WriterOptions;
  #file: Growing | undefined;
  #dirty = false;
  head: ChainHead = EMPTY;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  /** Throws when not all of it is in the file; then nothing of it is. */
  write(rows: readonly Row[]): void {
    const { file, cut } = this.#current();
    const all = cut === undefined ? rows : [this.#options.recovered(cut), ...rows];
    let head = this.head;
    const lines = all.map((row) => {
      const sealed = sealRow(head, row);
      head = sealed.head;
      return sealed.line;
    });
    const data = Buffer.from(lines.join(""));
    append(file, data);
    this.#file = { fd: file.fd, ino: file.ino, head, size: file.size + data.length };
    this.head = head;
  }

  async sync(): Promise<void> {
    this.#dirty = false;
    if (this.#file !== undefined) await sync(this.#file.fd);
  }

  /** Rides on the next flush, or goes by itself in time. */
  syncSoon(): void {
    if (this.#dirty) return;
    this.#dirty = true;
    this.#options.clock.after(this.#options.syncMs, () => {
      if (!this.#dirty || this.#file === undefined) return;
      this.#dirty = false;
      fdatasync(this.#file.fd, () => undefined);
    });
  }

  /** The next write opens the file anew and repairs it. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file.fd);
    this.#file = undefined;
  }

  /** The file as it is now: opened anew where another process has written to it or closed the segment. */
  #current(): { readonly file: Growing; readonly cut?: Growing["cut"] } {
    const { path, rotateBytes } = this.#options;
    const seen = statSync(path, { throwIfNoEntry: false });
    if (this.#file !== undefined && (seen?.ino !== this.#file.ino || seen.size !== this.#file.size)) this.close();
    let file = this.#file ?? openGrowing(path);
    if (file.size >= rotateBytes && file.cut === undefined) {
      renameSync(path, join(dirname(path), segmentName(basename(path), file.head.seq)));
      closeSync(file.fd);
      file = openGrowing(path);
    }
    this.#file = file;
    this.head = file.head;
    return file.cut === undefined ? { file } : { file, cut: file.cut };
  }
}
