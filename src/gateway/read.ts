// Reads lines of a text file inside the sandbox: bounded, streaming, and never a dump of something binary.
import { failure, type Inside, pathInside, runGuest, success, type ToolOutcome } from "./inside.ts";

export interface ReadParams {
  readonly path: string;
  /** First line, from 1. */
  readonly offset: number;
  /** Number of lines. */
  readonly limit: number;
}

export const LINES_MAX = 2_000;
const TEXT_BYTES_MAX = 64 * 1024;
/** Where a file is looked through at most. */
const SCAN_BYTES_MAX = 1024 * 1024 * 1024;
const BINARY_LOOK = 8 * 1024;

/** Takes a file in chunks and keeps the lines that are wanted. */
export class LineWindow {
  readonly #first: number;
  readonly #limit: number;
  readonly #kept: Buffer[] = [];
  #size = 0;
  #seen = 0;
  #line = 1;
  #ended = true;
  binary = false;
  /** Something follows what was kept. */
  more = false;

  constructor(first: number, limit: number) {
    this.#first = first;
    this.#limit = limit;
  }

  /** False when no more is wanted. */
  push(data: Uint8Array): boolean {
    const chunk = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    if (this.#seen < BINARY_LOOK && chunk.subarray(0, BINARY_LOOK - this.#seen).includes(0)) this.binary = true;
    this.#seen += chunk.length;
    if (this.binary) return false;
    let from = 0;
    while (from < chunk.length) {
      if (this.#line >= this.#first + this.#limit || this.#size >= TEXT_BYTES_MAX) {
        this.more = true;
        return false;
      }
      const newline = chunk.indexOf(10, from);
      const end = newline < 0 ? chunk.length : newline + 1;
      if (this.#line >= this.#first) this.#keep(chunk.subarray(from, end));
      this.#ended = newline >= 0;
      if (newline >= 0) this.#line += 1;
      from = end;
    }
    return true;
  }

  #keep(part: Buffer): void {
    const room = TEXT_BYTES_MAX - this.#size;
    this.#kept.push(Buffer.from(part.subarray(0, room)));
    this.#size += part.length;
  }

  /** Lines of the whole file, as far as it was read. */
  get lines(): number {
    return this.#ended ? this.#line - 1 : this.#line;
  }

  get text(): string {
    const whole = Buffer.concat(this.#kept);
    const over = this.#size > TEXT_BYTES_MAX || (this.#size === TEXT_BYTES_MAX && this.more);
    const newline = over ? whole.lastIndexOf(10) : -1;
    // A cut goes behind the last whole line, or, in one huge line, anywhere.
    return (newline < 0 ? whole : whole.subarray(0, newline + 1)).toString("utf8");
  }
}

function render(window: LineWindow, params: ReadParams): ToolOutcome {
  const { path, offset } = params;
  if (window.binary) return success(`[${path} is a binary file: not shown]`);
  const text = window.text;
  if (offset > 1 && text === "" && !window.more)
    return failure(`offset ${offset} is behind the end of ${path}, which has ${window.lines} lines`);
  const shown = text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  const last = offset + shown - 1;
  const garbled = text.includes("\uFFFD") ? "\n[some bytes are not UTF-8 and are shown as \uFFFD]" : "";
  const cut = text.endsWith("\n") ? "" : "\n";
  if (!window.more) return success(`${text}${garbled}`);
  if (!text.endsWith("\n")) return success(`${text}\n[line ${last} is longer than ${TEXT_BYTES_MAX} bytes and was cut]${garbled}`);
  return success(`${text}${cut}[lines ${offset}-${last}; more follow: offset ${last + 1}]${garbled}`);
}

export async function read(inside: Inside, params: ReadParams, signal: AbortSignal): Promise<ToolOutcome> {
  const window = new LineWindow(params.offset, params.limit);
  const most = String(SCAN_BYTES_MAX);
  const args = ["cat", "--max", most, "--", pathInside(params.path), "0", most];
  const failed = await runGuest(inside, { args, take: (data) => window.push(data) }, signal);
  return failed ?? render(window, params);
}
