// The memory plugin: short texts by key, each agent's own, kept below the plugin's data folder.
import type { CreatePlugin, ToolAnswer, ToolRequestInput } from "../../src/core/plugin.ts";
import { createNotes, KEY, type Notes, TEXT_BYTES_MAX } from "./notes.ts";

const HELP = `memory: remembers short texts for you, across sessions
  memory save KEY TEXT...   keep a text under a key; "-" as the text reads standard input
  memory get KEY            print the text
  memory list               one line a key: key, bytes, time
  memory search WORDS...    lines that hold all the words
  memory forget KEY         remove a key
exit codes: 0 done, 1 nothing there, 2 wrong usage or a limit
`;

const usage = (why: string): ToolAnswer => ({ output: "", exitCode: 2, error: `memory: ${why}; see memory help` });
const absent = (why: string): ToolAnswer => ({ output: "", exitCode: 1, error: `memory: ${why}` });
const keyFault = (key: string | undefined): string | undefined =>
  key === undefined ? "a key is missing" : KEY.test(key) ? undefined : "a key is 1 to 64 letters, digits, '.', '_' or '-'";

function textOf(words: readonly string[], input: ToolRequestInput): { readonly text: string } | { readonly wrong: string } {
  if (words.length === 0) return { wrong: "a text is missing" };
  const fromInput = words.length === 1 && words[0] === "-";
  if (fromInput && input.stdin === undefined) return { wrong: "standard input is empty" };
  const text = fromInput ? Buffer.from(input.stdin ?? []).toString("utf8") : words.join(" ");
  if (text.includes("\0")) return { wrong: "a text holds no NUL" };
  return Buffer.byteLength(text) <= TEXT_BYTES_MAX ? { text } : { wrong: `a text has at most ${TEXT_BYTES_MAX} bytes` };
}

async function save(notes: Notes, words: readonly string[], input: ToolRequestInput): Promise<ToolAnswer> {
  const [key = "", ...rest] = words;
  const fault = keyFault(words[0]);
  if (fault !== undefined) return usage(fault);
  const found = textOf(rest, input);
  if ("wrong" in found) return usage(found.wrong);
  const full = await notes.save(key, found.text);
  return full === undefined
    ? { output: `saved ${key} (${Buffer.byteLength(found.text)} bytes)\n` }
    : { ...usage(full), error: `memory: ${full}` };
}

async function get(notes: Notes, words: readonly string[]): Promise<ToolAnswer> {
  const fault = words.length > 1 ? "get takes one key" : keyFault(words[0]);
  if (fault !== undefined) return usage(fault);
  const note = (await notes.all()).find(({ key }) => key === words[0]);
  if (note === undefined) return absent(`there is no ${words[0]}`);
  return { output: note.text.endsWith("\n") ? note.text : `${note.text}\n` };
}

async function list(notes: Notes, words: readonly string[]): Promise<ToolAnswer> {
  if (words.length > 0) return usage("list takes no arguments");
  const lines = (await notes.all()).map(({ key, text, at }) => `${key}\t${Buffer.byteLength(text)}\t${at}\n`);
  return { output: lines.join("") };
}

async function search(notes: Notes, words: readonly string[]): Promise<ToolAnswer> {
  const wanted = words.flatMap((word) => word.toLowerCase().split(/\s+/)).filter((word) => word !== "");
  if (wanted.length === 0) return usage("words are missing");
  const found = (await notes.all()).flatMap(({ key, text }) => {
    if (!wanted.every((word) => `${key}\n${text}`.toLowerCase().includes(word))) return [];
    const lines = text.split("\n");
    const hits = lines.filter((line) => wanted.some((word) => line.toLowerCase().includes(word)));
    return (hits.length === 0 ? lines.slice(0, 1) : hits).map((line) => `${key}: ${line}\n`);
  });
  return found.length === 0 ? absent(`nothing holds ${wanted.join(" ")}`) : { output: found.join("") };
}

async function forget(notes: Notes, words: readonly string[]): Promise<ToolAnswer> {
  const fault = words.length > 1 ? "forget takes one key" : keyFault(words[0]);
  if (fault !== undefined) return usage(fault);
  return (await notes.forget(words[0] ?? "")) ? { output: `forgot ${words[0]}\n` } : absent(`there is no ${words[0]}`);
}

async function run(notes: Notes, input: ToolRequestInput): Promise<ToolAnswer> {
  const [verb, ...words] = input.args;
  switch (verb) {
    case "save":
      return save(notes, words, input);
    case "get":
      return get(notes, words);
    case "list":
      return list(notes, words);
    case "search":
      return search(notes, words);
    case "forget":
      return forget(notes, words);
    case "help":
    case "--help":
    case "-h":
      return { output: HELP };
    default:
      return usage(verb === undefined ? "a command is missing" : `there is no command '${verb.slice(0, 40)}'`);
  }
}

export const createPlugin: CreatePlugin = async (context) => {
  const notes = createNotes(context.dataFolder);
  return {
    register: async (registrar) => {
      registrar.tool({
        name: "memory",
        description: "Remembers short texts across sessions: save, get, list, search, forget.",
        run: (input, { caller, config }) => run(notes(caller.agent, config["entries"]), input),
      });
    },
  };
};
