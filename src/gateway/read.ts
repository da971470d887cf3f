// Reads a file inside the sandbox: lines of a text, or a whole picture; bounded, streaming, and never a dump of something binary.
import { IMAGES_CHARS_MAX } from "../core/images.ts";
import { pictureFault } from "../core/picture.ts";
import { failure, type Inside, pathInside, runGuest, success, type ToolOutcome } from "./inside.ts";
import { isGarbled, look, LOOK_BYTES, type Look } from "./look.ts";

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
/** What base64 makes of it is as much as a message may have. */
const PICTURE_BYTES_MAX = (IMAGES_CHARS_MAX / 4) * 3;

/** Takes a file in chunks and keeps the lines that are wanted. */
export class LineWindow {
  readonly #first: number;
  readonly #limit: number;
  readonly #kept: Buffer[] = [];
  #size = 0;
  #line = 1;
  #ended = true;
  /** Something follows what was kept. */
  more = false;

  constructor(first: number, limit: number) {
    this.#first = first;
    this.#limit = limit;
  }

  /** False when no more is wanted. */
  push(chunk: Buffer): boolean {
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

  /** Behind a beginning of text there may be anything. */
  get garbled(): boolean {
    return isGarbled(Buffer.concat(this.#kept));
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
  if (window.garbled) return success(`[${path} is a binary file: not shown]`);
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

/** Takes a file's bytes as they come; false when no more is wanted. */
interface Taker {
  push(chunk: Buffer): boolean;
  end(): ToolOutcome;
}

function lines(params: ReadParams): Taker {
  const window = new LineWindow(params.offset, params.limit);
  return { push: (chunk) => window.push(chunk), end: () => render(window, params) };
}

/** Shown as UTF-8: that is how write and patch write it. */
function converted(params: ReadParams, label: "utf-16le" | "utf-16be"): Taker {
  const window = new LineWindow(params.offset, params.limit);
  const decoder = new TextDecoder(label);
  const push = (chunk?: Buffer): boolean => window.push(Buffer.from(decoder.decode(chunk, { stream: chunk !== undefined })));
  const end = (): ToolOutcome => {
    if (!window.more) push();
    const shown = render(window, params);
    if (shown.outcome !== "ok" || window.garbled) return shown;
    const note = `\n[${params.path} is ${label.toUpperCase()}, shown here as UTF-8]`;
    return { ...shown, output: Buffer.concat([shown.output, Buffer.from(note)]) };
  };
  return { push, end };
}

function picture({ path }: ReadParams, mimeType: Extract<Look, { kind: "picture" }>["mimeType"]): Taker {
  const parts: Buffer[] = [];
  let size = 0;
  const push = (chunk: Buffer): boolean => {
    parts.push(Buffer.from(chunk));
    size += chunk.length;
    return size <= PICTURE_BYTES_MAX;
  };
  const end = (): ToolOutcome => {
    if (size > PICTURE_BYTES_MAX) return success(`[${path} is a picture (${mimeType}) of more than ${PICTURE_BYTES_MAX} bytes: not shown]`);
    const bytes = Buffer.concat(parts);
    const fault = pictureFault(bytes, mimeType);
    if (fault !== undefined) return success(`[${path} is not shown: ${fault}]`);
    const data = bytes.toString("base64");
    return { ...success(`[${path} is a picture: ${mimeType}, ${size} bytes]`), images: [{ type: "image", mimeType, data }] };
  };
  return { push, end };
}

function takerOf(params: ReadParams, seen: Look): Taker {
  switch (seen.kind) {
    case "picture":
      return picture(params, seen.mimeType);
    case "utf-16":
      return converted(params, seen.label);
    case "binary":
      return { push: () => false, end: () => success(`[${params.path} is ${seen.what}: not shown]`) };
    default:
      return lines(params);
  }
}

/** Looks at the beginning first, then takes the file as what it is. */
function looking(params: ReadParams): Taker {
  let held: Buffer[] = [];
  let size = 0;
  let taker: Taker | undefined;
  const decide = (): boolean => {
    const whole = Buffer.concat(held);
    held = [];
    taker = takerOf(params, look(whole.subarray(0, LOOK_BYTES)));
    return taker.push(whole);
  };
  const push = (chunk: Buffer): boolean => {
    if (taker !== undefined) return taker.push(chunk);
    held.push(Buffer.from(chunk));
    size += chunk.length;
    return size < LOOK_BYTES || decide();
  };
  const end = (): ToolOutcome => {
    if (taker === undefined) decide();
    return (taker ?? lines(params)).end();
  };
  return { push, end };
}

export async function read(inside: Inside, params: ReadParams, signal: AbortSignal): Promise<ToolOutcome> {
  const taker = looking(params);
  const most = String(SCAN_BYTES_MAX);
  const args = ["cat", "--max", most, "--", pathInside(params.path), "0", most];
  const take = (data: Uint8Array): boolean => taker.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  const failed = await runGuest(inside, { args, take }, signal);
  return failed ?? taker.end();
}
