// What a manifest names in the outside: variables and text files. Raw text only, light enough for the command line.
import { variableNames } from "./variables.ts";

const FILE =
  /\binstructions["']?[ \t]{0,8}:[ \t]{0,8}(?:\r?\n[ \t]{0,64})?\{?[ \t]{0,8}["']?file["']?[ \t]{0,8}:[ \t]{0,8}(?:"([^"\n]{1,512})"|'([^'\n]{1,512})'|([^\s"',}#][^\n,}#]{0,511}))/g;

/** Names of variables in order of appearance, each once. `$${X}` names none. */
export const scanVariables = (text: string): readonly string[] => variableNames(text);

/** Paths of `instructions: {file: PATH}`, a good guess that saves a round trip: the reader says exactly what it needs. */
export function scanFiles(text: string): readonly string[] {
  const paths = new Set<string>();
  for (const match of text.matchAll(FILE)) {
    const path = (match[1] ?? match[2] ?? match[3] ?? "").trim();
    if (path !== "") paths.add(path);
  }
  return [...paths];
}
