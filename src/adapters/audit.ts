// Appends to one audit chain with group commit: a flush takes all waiting rows, one write, one fdatasync.
import { basename, dirname } from "node:path";
import { UNKNOWN, type Audit, type AuditCall, type AuditOutcome, type AuditRow, type LeftCalls } from "../core/audit.ts";
import { capArgs, capText } from "../core/cap.ts";
import type { ChainHead } from "../core/chain.ts";
import { BeigeError } from "../core/errors.ts";
import type { Clock, Log } from "../core/world.ts";
import { openCalls } from "./audit/tail.ts";
import { ChainWriter, type Row } from "./audit/writer.ts";
import { createLock, type Lock } from "./lock.ts";

export interface AuditOptions {
  /** Absolute path of the growing file, NAME.jsonl. */
  readonly path: string;
  readonly clock: Clock;
  /** Given where other processes append to the same chain: every flush then holds this lock. */
  readonly lockPath?: string;
  /** Replaces secrets by value. */
  readonly redact?: (text: string) => string;
  readonly log?: Log;
  /** How long rows that nobody waits for may wait to be written, and then again to be on the disk. */
  readonly rideMs?: number;
  /** Size at which the file becomes a closed segment. */
  readonly rotateBytes?: number;
  /** False where calls without an outcome may belong to another living process. */
  readonly closeOpen?: boolean;
  /** Of the calls without an outcome: whether this one may still go on. It then waits in `left`. */
  readonly goesOn?: (call: string) => boolean;
}

export interface AuditChain extends Audit {
  /** Resolves when the chain is open and repaired; every append waits for it anyway. */
  ready(): Promise<void>;
  /** The last row that was written. */
  head(): ChainHead;
  readonly left: LeftCalls;
  /** Writes and syncs what waits. */
  close(): Promise<void>;
}

/** `durable`: on the disk before anybody goes on. `soon`: in the file. `late`: nobody waits, so that it rides with the next one for a moment. */
type When = "durable" | "soon" | "late";

interface Waiting {
  readonly row: Row;
  readonly when: When;
  readonly done: () => void;
  readonly fail: (error: BeigeError) => void;
}

const BATCH_MAX = 512;
const LATE_MAX = 1_000;
/** How long, and how many, rows that nobody waits for may wait for others, and how long written ones wait for somebody's flush. */
const RIDE_MS = 10;
const SYNC_MS = 5;
const RIDE_ROWS = 128;
const WAITING_MAX = 20_000;
const ROTATE_BYTES = 64 * 1024 * 1024;
const ERROR_BYTES_MAX = 2048;
const WORD_BYTES_MAX = 256;
/** Outcomes that nobody waits for: there may be thousands of them a second. */
const UNAWAITED: ReadonlySet<AuditCall["type"]> = new Set(["llm", "access"]);

/** Now as text; rows of one moment share it. */
function createStamp(clock: Clock): () => string {
  let at = { ms: Number.NaN, text: "" };
  return () => {
    const ms = clock.now();
    if (at.ms !== ms) at = { ms, text: new Date(ms).toISOString() };
    return at.text;
  };
}

/** Rows as they may be written: bounded, and without secrets. */
function rowMaker(clock: Clock, redact: (text: string) => string) {
  const stamp = createStamp(clock);
  const word = (text: string): string => capText(redact(text), WORD_BYTES_MAX);
  return (call: string, phase: AuditRow["phase"], row: AuditCall, rest: Partial<AuditOutcome> = {}): Row => ({
    ts: stamp(),
    call,
    phase,
    ...row,
    agent: word(row.agent),
    tool: word(row.tool),
    args: capArgs(row.args.map(redact)),
    ...(row.session === undefined ? {} : { session: word(row.session) }),
    ...(row.request === undefined ? {} : { request: word(row.request) }),
    ...rest,
    ...(rest.error === undefined ? {} : { error: capText(redact(rest.error), ERROR_BYTES_MAX) }),
  });
}

/** Takes rows one at a time and writes them in batches, one batch after the other. */
class GroupCommit {
  readonly #writer: ChainWriter;
  readonly #lock: Lock | undefined;
  readonly #options: AuditOptions;
  readonly #rideMs: number;
  readonly #waiting: Waiting[] = [];
  /** Outcomes whose write failed: the next flush takes them first. */
  #late: readonly Row[] = [];
  #running: Promise<void> | undefined;
  #riding = false;
  #closed = false;

  constructor(writer: ChainWriter, options: AuditOptions) {
    this.#writer = writer;
    this.#options = options;
    this.#rideMs = options.rideMs ?? RIDE_MS;
    this.#lock = options.lockPath === undefined ? undefined : createLock(options.lockPath, options.clock);
  }

  push(row: Row, when: When): Promise<void> {
    return new Promise((done, fail) => {
      if (this.#closed || this.#waiting.length >= WAITING_MAX) {
        const why = this.#closed ? "closed" : "overloaded";
        return fail(new BeigeError("unavailable", `audit chain ${basename(this.#options.path)} is ${why}`));
      }
      this.#waiting.push({ row, when, done, fail });
      if (when === "late" && this.#waiting.length < RIDE_ROWS) this.#ride();
      else this.#running ??= this.#run();
    });
  }

  #ride(): void {
    if (this.#riding || this.#running !== undefined) return;
    this.#riding = true;
    this.#options.clock.after(this.#rideMs, () => {
      this.#riding = false;
      if (this.#waiting.length > 0) this.#running ??= this.#run();
    });
  }

  async flush(batch: readonly Waiting[]): Promise<void> {
    const write = async (): Promise<void> => {
      this.#writer.write([...this.#late, ...batch.map((entry) => entry.row)]);
      this.#late = [];
      for (const entry of batch) if (entry.when !== "durable") entry.done();
      if (!batch.some((entry) => entry.when === "durable")) return this.#writer.syncSoon();
      await this.#writer.sync();
      for (const entry of batch) if (entry.when === "durable") entry.done();
    };
    try {
      await (this.#lock === undefined ? write() : this.#lock.hold(write));
    } catch (error) {
      this.#refuse(batch, error);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#waiting.length > 0) this.#running ??= this.#run();
    while (this.#running !== undefined) await this.#running;
    await this.#writer.sync();
    this.#writer.close();
    this.#lock?.close();
  }

  async #run(): Promise<void> {
    // One turn of the event loop, so that everybody who waits now shares the flush.
    await new Promise((done) => setImmediate(done));
    while (this.#waiting.length > 0) await this.flush(this.#waiting.splice(0, BATCH_MAX));
    this.#running = undefined;
  }

  #refuse(batch: readonly Waiting[], thrown: unknown): void {
    const { path, log } = this.#options;
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    log?.error("audit chain cannot be written", { path, error: why });
    const error = new BeigeError("unavailable", `audit chain ${basename(path)} cannot be written: ${why}`, {
      hint: `df -h ${dirname(path)}`,
      cause: thrown,
    });
    const outcomes = batch.filter((entry) => entry.row.phase === "end").map((entry) => entry.row);
    this.#late = [...this.#late, ...outcomes].slice(-LATE_MAX);
    for (const entry of batch) entry.fail(error);
    this.#writer.close();
  }
}

export function createAudit(options: AuditOptions): AuditChain {
  const { path, clock, log } = options;
  const rowOf = rowMaker(clock, options.redact ?? ((text) => text));
  const recovered = (cut: { readonly bytes: number; readonly hash: string }): Row => {
    log?.warn("audit chain was cut behind its last whole row", { path, bytes: cut.bytes });
    const args = [`sha256 ${cut.hash}`, `bytes ${cut.bytes}`];
    return rowOf("", "note", { agent: "", type: "control", tool: "recovered", args, decision: "allowed" });
  };
  const writer = new ChainWriter({
    path,
    clock,
    rotateBytes: options.rotateBytes ?? ROTATE_BYTES,
    syncMs: options.rideMs ?? SYNC_MS,
    recovered,
  });
  const commit = new GroupCommit(writer, options);

  const waiting = new Map<string, AuditCall>();
  const closeAll = async (which: (call: string) => boolean): Promise<void> => {
    const those = [...waiting].filter(([call]) => which(call));
    for (const [call] of those) waiting.delete(call);
    await Promise.all(those.map(([call, row]) => commit.push(rowOf(call, "end", row, UNKNOWN), "durable")));
  };
  const left: LeftCalls = {
    take(call) {
      const row = waiting.get(call);
      waiting.delete(call);
      return row;
    },
    close: () => closeAll(() => true),
  };

  /** Calls of the last run are closed before this run's first: afterwards nobody could tell them apart. */
  const repair = async (): Promise<void> => {
    await commit.flush([]);
    if (!writer.isOpen) throw new BeigeError("unavailable", `audit chain ${basename(path)} cannot be opened`, { hint: `ls -l ${path}` });
    if (options.closeOpen === false) return;
    const open = await openCalls(path);
    for (const { seq: _s, ts: _t, call, phase: _p, prev_hash: _v, hash: _h, ...row } of open) waiting.set(call, row);
    await closeAll((call) => options.goesOn?.(call) !== true);
  };
  let ready: Promise<void> | undefined;
  let opened = false;
  const start = (): Promise<void> =>
    (ready ??= repair().then(
      () => void (opened = true),
      (error: unknown) => {
        ready = undefined;
        throw error;
      },
    ));
  const add = (row: Row, when: When): Promise<void> => (opened ? commit.push(row, when) : start().then(() => commit.push(row, when)));
  return {
    ready: start,
    begin: (call, row) => add(rowOf(call, "begin", row), "durable"),
    end: (call, row, outcome) => add(rowOf(call, "end", row, outcome), UNAWAITED.has(row.type) ? "late" : "soon"),
    denied: (call, row, error) => add(rowOf(call, "denied", row, { error }), "durable"),
    note: (call, row, outcome) => add(rowOf(call, "note", row, outcome), "durable"),
    head: () => writer.head,
    left,
    close: () => commit.close(),
  };
}
