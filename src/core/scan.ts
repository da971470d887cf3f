// What a manifest names in the outside: variables and text files. A regex over the raw text, light enough for the command line.

const VARIABLE = /\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}/g;
const FILE =
  /\binstructions["']?[ \t]*:[ \t]*(?:\r?\n[ \t]*)?\{?[ \t]*["']?file["']?[ \t]*:[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"',}#][^\n,}#]*))/g;

/** Names of variables in order of appearance, each once. `$${X}` names none. */
export function scanVariables(text: string): readonly string[] {
  const names = new Set<string>();
  for (const match of text.matchAll(VARIABLE)) if (match[1] !== undefined) names.add(match[1]);
  return [...names];
}

/** Paths of `instructions: {file: PATH}`, a good guess that saves a round trip: the reader says exactly what it needs. */
export function scanFiles(text: string): readonly string[] {
  const paths = new Set<string>();
  for (const match of text.matchAll(FILE)) {
    const path = (match[1] ?? match[2] ?? match[3] ?? "").trim();
    if (path !== "") paths.add(path);
  }
  return [...paths];
}
