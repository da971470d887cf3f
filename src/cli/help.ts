// Help texts, all from the table of verbs: the overview, a verb, the topics and the whole as JSON.
import { type Flag, GLOBAL, type Verb } from "./flags.ts";
import { groupOf } from "./parse.ts";

const TITLE = "beige - run AI agents like services: describe them in YAML, apply, review the diff";

const GROUPS: readonly (readonly [string, readonly string[]])[] = [
  ["Start", ["init", "up", "gateway", "doctor"]],
  ["Change", ["validate", "diff", "apply", "delete", "edit", "rollout", "wait", "reconcile", "suspend", "resume"]],
  ["Look", ["status", "get", "describe", "tree", "explain", "events", "logs", "audit"]],
  ["Talk", ["prompt", "tui", "exec"]],
  ["More", ["secret", "key", "completion", "version", "help"]],
];

export const EXIT_CODES = `exit codes of beige
    0  done; diff: no differences
    1  failed, or not found; diff: differences
    2  usage, or an invalid manifest: nothing was changed
    3  precondition: a conflict, a stale plan, a guard that refused
    4  not allowed
    5  no gateway, no engine, or a provider that does not answer
    6  a deadline passed
    7  applied in part: the failed ones are named on standard error
    8  a limit, quota or budget is used up
   70  a bug of beige: please report it
  130  interrupted (Ctrl-C)    143  terminated    141  the reader went away
exec passes on the code of the command in the sandbox.
`;

export const TOPICS: Readonly<Record<string, string>> = { "exit-codes": EXIT_CODES };

const table = (rows: readonly (readonly [string, string])[], gap = 2): string => {
  const width = Math.max(0, ...rows.map(([left]) => left.length)) + gap;
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${right}`.trimEnd()).join("\n");
};

const WIDE = 100;

/** Words with commas between them, in lines that fit. */
function wrapped(words: readonly string[]): string {
  const lines = [""];
  words.forEach((word, i) => {
    const text = i === words.length - 1 ? word : `${word},`;
    if ((lines.at(-1) ?? "").length + text.length >= WIDE) lines.push("");
    lines[lines.length - 1] += ` ${text}`;
  });
  return lines.map((line) => ` ${line}\n`).join("");
}

export function overview(verbs: readonly Verb[]): string {
  const rows = (names: readonly string[]): [string, string][] =>
    names.flatMap((name): [string, string][] => {
      const verb = verbs.find((each) => each.name === name);
      if (verb) return [[name, verb.summary]];
      const group = groupOf(name, verbs);
      return group.length === 0 ? [] : [[name, group.map((each) => each.name.slice(name.length + 1)).join(", ")]];
    });
  const shown = new Set(GROUPS.flatMap(([, names]) => names));
  const others = [...new Set(verbs.map((verb) => verb.name.split(" ")[0] ?? ""))].filter(
    (name) => !name.startsWith("__") && !shown.has(name),
  );
  const width = Math.max(...GROUPS.flatMap(([, names]) => names).map((name) => name.length));
  const body = GROUPS.map(([title, names]) => `${title}\n${table(rows(names).map(([a, b]) => [a.padEnd(width), b]))}`).join("\n");
  return `${TITLE}\n${body}\nAlso\n${wrapped(others)}beige VERB --help   its flags and examples      beige help exit-codes      beige help --json\n`;
}

const flagText = (flag: Flag): string =>
  `${flag.short ? `-${flag.short}, ` : "    "}--${flag.name}${flag.value === undefined ? "" : ` ${flag.value}`}`;

export function verbHelp(verb: Verb): string {
  const flags = [...verb.flags, ...GLOBAL.filter((each) => !verb.flags.some((own) => own.name === each.name))];
  const parts = [
    `beige ${verb.name} - ${verb.summary}`,
    `usage: beige ${verb.name} ${verb.args}${verb.flags.length > 0 ? " [flags]" : ""}`.trimEnd(),
    table(verb.examples.map(([left, right]) => [left, right])),
    `flags:\n${table(flags.map((flag) => [flagText(flag), flag.summary + (flag.many === true ? " (several)" : "")]))}`,
  ];
  if (verb.exits !== undefined) parts.push(`exit: ${verb.exits}`);
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

export function groupHelp(name: string, verbs: readonly Verb[]): string {
  const group = groupOf(name, verbs);
  return `beige ${name} - ${group.length} verbs\n\n${table(group.map((verb) => [`beige ${verb.name} ${verb.args}`.trimEnd(), verb.summary]))}\n\nbeige ${name} VERB --help\n`;
}

/** The whole tree, so that a program learns the tool in one call. */
export function helpJson(verbs: readonly Verb[], version: string): string {
  const list = verbs.map(({ load: _load, takes, ...verb }) => ({
    ...verb,
    minArgs: takes[0],
    maxArgs: takes[1] === Infinity ? null : takes[1],
  }));
  return `${JSON.stringify({ version, globalFlags: GLOBAL, verbs: list, topics: TOPICS }, undefined, 2)}\n`;
}
