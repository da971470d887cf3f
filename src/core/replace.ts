// Finds and replaces text in a file's bytes so that every byte outside the match stays as it was, whatever its line endings.

export interface Replacement {
  readonly find: string;
  readonly replace: string;
  readonly all: boolean;
}

export type Replaced =
  | { readonly ok: true; readonly data: Buffer; readonly lines: readonly number[] }
  | { readonly ok: false; readonly error: string };

const LISTED_MAX = 10;
const HINT_MAX = 120;

/** One character a byte: offsets in the text are offsets in the file. */
const bytesOf = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

interface Match {
  readonly from: number;
  readonly to: number;
}

/** Every place, also where places overlap: two readings of one text are two matches. */
function exact(text: string, find: string): readonly Match[] {
  const found: Match[] = [];
  for (let at = text.indexOf(find); at >= 0; at = text.indexOf(find, at + 1)) found.push({ from: at, to: at + find.length });
  return found;
}

/** The same lines with other line endings: a model writes \n whatever the file has. */
function anyEnding(text: string, find: string): readonly Match[] {
  if (!find.includes("\n")) return [];
  const pattern = new RegExp(find.split(/\r?\n/).map(escaped).join("\\r?\\n"), "g");
  const found: Match[] = [];
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    found.push({ from: match.index, to: match.index + match[0].length });
    pattern.lastIndex = match.index + 1;
  }
  return found;
}

const lineOf = (text: string, offset: number): number => {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < offset; at = text.indexOf("\n", at + 1)) line += 1;
  return line;
};

/** The line ending in use at a match: inside it, else behind it, else before it. */
function endingAt(text: string, match: Match): "\n" | "\r\n" | undefined {
  const inside = text.slice(match.from, match.to).indexOf("\n");
  const behind = text.indexOf("\n", match.to);
  const at = inside >= 0 ? match.from + inside : behind >= 0 ? behind : text.lastIndexOf("\n", match.from - 1);
  if (at < 0) return undefined;
  return text[at - 1] === "\r" ? "\r\n" : "\n";
}

function withEnding(replace: string, ending: "\n" | "\r\n" | undefined): string {
  // Whoever writes \r\n means it.
  if (ending !== "\r\n" || replace.includes("\r\n")) return replace;
  return replace.replaceAll("\n", "\r\n");
}

const squeezed = (line: string): string => line.replace(/\s+/g, " ").trim();

/** What a reader would call the place that was meant. */
function nearest(text: string, find: string): string {
  const wanted = find
    .split(/\r?\n/)
    .map(squeezed)
    .find((line) => line !== "");
  if (wanted === undefined) return "";
  const lines = text.split(/\r?\n/);
  const at = lines.findIndex((line) => squeezed(line) === wanted);
  const similar = at >= 0 ? at : lines.findIndex((line) => squeezed(line).toLowerCase() === wanted.toLowerCase());
  if (similar < 0) return "";
  const shown = Buffer.from(lines[similar] ?? "", "latin1")
    .toString("utf8")
    .slice(0, HINT_MAX);
  const why = at >= 0 ? "its white space or the lines around it differ" : "its upper and lower case differ";
  return `; nearest is line ${similar + 1} (${why}): ${JSON.stringify(shown)}`;
}

const separate = (matches: readonly Match[]): readonly Match[] => {
  let end = 0;
  return matches.filter((match) => {
    if (match.from < end) return false;
    end = match.to;
    return true;
  });
};

export function replaceInFile(file: Buffer, wanted: Replacement): Replaced {
  if (wanted.find === "") return { ok: false, error: "find is empty; use write for a whole file" };
  if (wanted.find === wanted.replace) return { ok: false, error: "find and replace are equal: nothing to change" };
  if (file.includes(0)) return { ok: false, error: "is a binary file; patch changes text only" };
  const text = file.toString("latin1");
  const find = bytesOf(wanted.find);
  const first = exact(text, find);
  const matches = first.length > 0 ? first : anyEnding(text, find);
  if (matches.length === 0) return { ok: false, error: `find is not in the file${nearest(text, find)}` };
  if (matches.length > 1 && !wanted.all) {
    const lines = matches.slice(0, LISTED_MAX).map((match) => lineOf(text, match.from));
    const more = matches.length > LISTED_MAX ? ", ..." : "";
    return {
      ok: false,
      error: `find is in the file ${matches.length} times, at lines ${lines.join(", ")}${more}; make it longer, or say all: true`,
    };
  }
  const replace = bytesOf(wanted.replace);
  const chosen = separate(matches);
  const parts: string[] = [];
  let from = 0;
  for (const match of chosen) {
    parts.push(text.slice(from, match.from), withEnding(replace, endingAt(text, match)));
    from = match.to;
  }
  const data = Buffer.from(parts.join("") + text.slice(from), "latin1");
  return { ok: true, data, lines: chosen.slice(0, LISTED_MAX).map((match) => lineOf(text, match.from)) };
}
