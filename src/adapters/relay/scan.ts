// Reads runs of whole events cheaply: bytes are searched, and only what may matter is parsed.
import { isObject, type Format, type Memo, type Payload, type Word } from "./format.ts";

const NEWLINE = 10;
const RETURN = 13;
const SPACE = 32;
const BRACKET = 91;
const OPEN = 123;
const CLOSE = 125;
const DATA = Buffer.from("data:");
const DONE = "[DONE]";
const QUOTED_MAX = 200;

export interface Scanned {
  /** What goes on to the reader. */
  readonly bytes: Buffer | undefined;
  readonly shows: boolean;
  readonly ended: boolean;
  /** The data of the event that failed the answer; it is not among the bytes. */
  readonly error?: string;
}

export interface Scanner {
  read(events: Buffer): Scanned;
}

export const CUT = "the stream ended before the answer was complete";

interface Place {
  readonly buffer: Buffer;
  readonly next: Payload["next"];
}

/** Each needle is looked for once in a run, not once an event. */
function placeOf(buffer: Buffer, needles: readonly Buffer[]): Place {
  const found = needles.map(() => -1);
  const next: Payload["next"] = (needle, from) => {
    const bytes = needles[needle];
    if (bytes === undefined) return Infinity;
    if ((found[needle] ?? -1) < from) {
      const at = buffer.indexOf(bytes, from);
      found[needle] = at === -1 ? Infinity : at;
    }
    return found[needle] ?? Infinity;
  };
  return { buffer, next };
}

const isData = (buffer: Buffer, { from, to }: Line): boolean =>
  to >= from + DATA.length && buffer[from] === DATA[0] && buffer.compare(DATA, 0, DATA.length, from, from + DATA.length) === 0;

/** One line without its end. */
interface Line {
  readonly from: number;
  readonly to: number;
  /** Where the next one begins. */
  readonly after: number;
}

function lineAt(buffer: Buffer, from: number): Line {
  const newline = buffer.indexOf(NEWLINE, from);
  if (newline === -1) return { from, to: buffer.length, after: buffer.length };
  return { from, to: newline > from && buffer[newline - 1] === RETURN ? newline - 1 : newline, after: newline + 1 };
}

/** The data of a line, without what surrounds it. */
function payloadOf(place: Place, line: Line): Payload {
  const first = line.from + DATA.length;
  return { ...place, from: place.buffer[first] === SPACE ? first + 1 : first, to: line.to };
}

type Told = { readonly word: Exclude<Word, "error"> } | { readonly word: "error"; readonly text: string };

function parsedWord(payload: Payload, format: Format, memo: Memo): Told {
  const text = payload.buffer.toString("utf8", payload.from, payload.to);
  try {
    const json: unknown = JSON.parse(text);
    const word = isObject(json) ? format.read(json, memo) : "error";
    return word === "error" ? { word, text } : { word };
  } catch {
    return { word: "error", text: `an event of the stream is not JSON: ${text.slice(0, QUOTED_MAX)}` };
  }
}

function markWord(payload: Payload, format: Format, memo: Memo): Told {
  if (!format.marked || payload.buffer.toString("latin1", payload.from, payload.to) !== DONE) return { word: "quiet" };
  return memo.stop === undefined ? { word: "error", text: CUT } : { word: "end" };
}

export function createScanner(format: Format, memo: Memo, options: { readonly dropExtra: boolean }): Scanner {
  let shown = false;
  const told = (payload: Payload): Told => {
    const { buffer, from, to } = payload;
    if (from >= to) return { word: "quiet" };
    if (buffer[from] === BRACKET) return markWord(payload, format, memo);
    // What ends without its brace was cut: it is parsed, which fails.
    const whole = buffer[from] === OPEN && buffer[to - 1] === CLOSE;
    return shown && whole && format.plain(payload) ? { word: "shows" } : parsedWord(payload, format, memo);
  };
  return {
    read(events) {
      const place = placeOf(events, format.needles);
      const kept: Buffer[] = [];
      // The run of bytes that go on ends where the event that is being read begins.
      let [run, event, shows, ended, drop] = [0, 0, false, false, false];
      for (let line = lineAt(events, 0); line.from < events.length; line = lineAt(events, line.after)) {
        if (line.to === line.from) {
          if (drop && event > run) kept.push(events.subarray(run, event));
          if (drop) run = line.after;
          drop = false;
          event = line.after;
          if (ended) break;
        } else if (!ended && isData(events, line)) {
          const said = told(payloadOf(place, line));
          if (said.word === "error") return { bytes: joined(kept, events.subarray(run, event)), shows, ended, error: said.text };
          shows ||= said.word === "shows" || said.word === "end";
          shown ||= shows;
          ended = said.word === "end";
          drop ||= said.word === "extra" && options.dropExtra;
        }
      }
      return { bytes: joined(kept, events.subarray(run, event)), shows, ended };
    },
  };
}

function joined(kept: Buffer[], last: Buffer): Buffer | undefined {
  if (last.length > 0) kept.push(last);
  return kept.length <= 1 ? kept[0] : Buffer.concat(kept);
}
