// The hash chain of an audit file: how a row is sealed, and how anyone verifies a whole file without the gateway.
import { hash as digest } from "node:crypto";
import type { AuditRow } from "./audit.ts";

/** What the first row of a chain follows. */
export const GENESIS = "0".repeat(64);
/** Longest line that is read; rows are far smaller. */
export const LINE_BYTES_MAX = 1024 * 1024;

export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

export const EMPTY: ChainHead = { seq: 0, hash: GENESIS };

export const hashRow = (prev: string, body: string): string => digest("sha256", prev + body, "hex");

/** A row as a line: its `hash` is the last member, over prev_hash and the exact text of the row without it. */
export function sealRow(
  head: ChainHead,
  row: Omit<AuditRow, "seq" | "prev_hash" | "hash">,
): { readonly line: string; readonly head: ChainHead } {
  const seq = head.seq + 1;
  // The text of {seq, ...row, prev_hash} without a copy of the row: this is done for every row of the gateway.
  const body = `{"seq":${seq},${JSON.stringify(row).slice(1, -1)},"prev_hash":"${head.hash}"}`;
  const hash = hashRow(head.hash, body);
  return { line: `${body.slice(0, -1)},"hash":"${hash}"}\n`, head: { seq, hash } };
}

const TAIL = /,"hash":"([0-9a-f]{64})"\}$/;

/** A line's row and the text that its hash covers; undefined when it is no row. */
export function openRow(line: string): { readonly row: AuditRow; readonly body: string } | undefined {
  const tail = TAIL.exec(line);
  if (tail === null) return undefined;
  const body = `${line.slice(0, tail.index)}}`;
  try {
    const row = JSON.parse(line) as AuditRow;
    if (!Number.isSafeInteger(row.seq) || typeof row.prev_hash !== "string" || typeof row.call !== "string") return undefined;
    return { row, body };
  } catch {
    return undefined;
  }
}

export interface Verified {
  readonly ok: boolean;
  readonly rows: number;
  readonly head: ChainHead;
  /** Line, counted from 1 over all segments, at which the chain breaks. */
  readonly line?: number;
  readonly problem?: string;
  /** Calls that began and have no outcome yet. */
  readonly open: number;
}

interface Walk {
  head: ChainHead;
  rows: number;
  readonly open: Set<string>;
  anchored: boolean;
}

function step(walk: Walk, line: string, anchor: ChainHead | undefined): string | undefined {
  const opened = openRow(line);
  if (opened === undefined) return "is no audit row";
  const { row, body } = opened;
  if (row.seq !== walk.head.seq + 1) return `has seq ${row.seq} where ${walk.head.seq + 1} is due`;
  if (row.prev_hash !== walk.head.hash) return `of seq ${row.seq} does not follow the row before it`;
  if (hashRow(row.prev_hash, body) !== row.hash) return `of seq ${row.seq} was changed: its hash does not fit`;
  walk.head = { seq: row.seq, hash: row.hash };
  walk.rows += 1;
  if (row.phase === "begin") walk.open.add(row.call);
  if (row.phase === "end") walk.open.delete(row.call);
  if (anchor?.seq !== row.seq) return undefined;
  walk.anchored = true;
  return anchor.hash === row.hash ? undefined : `of seq ${row.seq} is not the row that the anchor names`;
}

/** Splits bytes into lines; the last one may lack its newline and then comes with `whole` false. */
async function* lines(
  chunks: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string>,
): AsyncGenerator<{ readonly text: string; readonly whole: boolean }> {
  let held = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const data = typeof chunk === "string" ? Buffer.from(chunk) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, from)) {
      const part = data.subarray(from, end);
      yield { text: (held.length === 0 ? part : Buffer.concat([held, part])).toString("utf8"), whole: true };
      held = Buffer.alloc(0);
      from = end + 1;
    }
    held = Buffer.concat([held, data.subarray(from)]);
    if (held.length > LINE_BYTES_MAX) break;
  }
  if (held.length > 0) yield { text: held.toString("utf8"), whole: false };
}

/**
 * Checks every row of a chain in one pass and bounded memory. `chunks` are the bytes of all segments, oldest first (see `chainSegments`).
 * With an anchor (an older head) a cut tail and a rewritten history are found too.
 */
export async function verifyChain(
  chunks: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string>,
  anchor?: ChainHead,
): Promise<Verified> {
  const walk: Walk = { head: EMPTY, rows: 0, open: new Set(), anchored: anchor === undefined || anchor.seq === 0 };
  const answer = (line?: number, problem?: string): Verified => {
    const base = { ok: problem === undefined, rows: walk.rows, head: walk.head, open: walk.open.size };
    return { ...base, ...(line === undefined ? {} : { line }), ...(problem === undefined ? {} : { problem }) };
  };
  let number = 0;
  for await (const { text, whole } of lines(chunks)) {
    number += 1;
    const wrong = whole ? step(walk, text, anchor) : "is torn: it has no end";
    if (wrong !== undefined) return answer(number, `line ${number} ${wrong}`);
  }
  if (walk.anchored) return answer();
  return answer(undefined, `the chain ends at seq ${walk.head.seq}, before the anchor's ${anchor?.seq}: its tail was cut`);
}

/** File name of a closed segment: NAME-<seq of its last row>.jsonl, so that names sort by age. */
export const segmentName = (base: string, lastSeq: number): string =>
  base.replace(/\.jsonl$/, "") + `-${String(lastSeq).padStart(15, "0")}.jsonl`;

/** The segments of a chain among a folder's file names, oldest first, the growing file (`audit.jsonl`) last. */
export function chainSegments(names: readonly string[], base: string): readonly string[] {
  const stem = base.replace(/\.jsonl$/, "");
  const closed = names.filter((name) => name.startsWith(`${stem}-`) && /^-\d{15}\.jsonl$/.test(name.slice(stem.length)));
  return [...closed.toSorted(), ...(names.includes(base) ? [base] : [])];
}

/** `SEQ:HASH`, as printed by `beige audit anchor`. */
export const printAnchor = (head: ChainHead): string => `${head.seq}:${head.hash}`;

export function parseAnchor(text: string): ChainHead | undefined {
  const match = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text.trim());
  return match === null ? undefined : { seq: Number(match[1]), hash: match[2] ?? "" };
}
