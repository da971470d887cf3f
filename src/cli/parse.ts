// Words of the command line to a verb and its input. Every mistake says the nearest right word.
import { parseArgs, type ParseArgsOptionDescriptor } from "node:util";
import { BeigeError } from "../core/errors.ts";
import { nearest } from "../core/text.ts";
import { type Flag, GLOBAL, type Input, type Verb } from "./flags.ts";

export interface Parsed {
  readonly verb: Verb;
  readonly input: Input;
}

/** Verbs take one word or two; two win. */
export function findVerb(argv: readonly string[], verbs: readonly Verb[]): { readonly verb: Verb; readonly used: number } | undefined {
  const [first = "", second = ""] = argv;
  const two = verbs.find((verb) => verb.name === `${first} ${second}`);
  if (two) return { verb: two, used: 2 };
  const one = verbs.find((verb) => verb.name === first);
  return one && { verb: one, used: 1 };
}

/** Words below a group such as `audit`. */
export const groupOf = (name: string, verbs: readonly Verb[]): readonly Verb[] => verbs.filter((verb) => verb.name.startsWith(`${name} `));

export function unknownVerb(argv: readonly string[], verbs: readonly Verb[]): BeigeError {
  const [first = "", second = ""] = argv;
  const group = groupOf(first, verbs);
  const [word, known] =
    group.length > 0
      ? [second, group.map((verb) => verb.name.slice(first.length + 1))]
      : [first, [...new Set(verbs.map((verb) => verb.name.split(" ")[0] ?? ""))]];
  const near = nearest(word, known);
  const prefix = group.length > 0 ? `${first} ` : "";
  const hint = near === undefined ? `beige ${prefix}has ${known.join(", ")}` : `did you mean "beige ${prefix}${near}"?`;
  return new BeigeError("invalid", word === "" ? `"${first}" needs another word` : `unknown verb "${prefix}${word}"`, {
    hint: group.length > 0 || near !== undefined ? hint : "beige help lists the verbs",
  });
}

const option = (flag: Flag): ParseArgsOptionDescriptor => ({
  type: flag.value === undefined ? "boolean" : "string",
  ...(flag.short !== undefined && { short: flag.short }),
  ...(flag.many === true && { multiple: true }),
});

/** Turns node's sentence into ours. */
function usage(error: unknown, verb: Verb, flags: readonly Flag[], argv: readonly string[]): BeigeError {
  const text = error instanceof Error ? error.message : String(error);
  const name = /'(-{1,2}[^' ,]+)/.exec(text)?.[1] ?? "";
  const code = (error as { code?: string }).code;
  const help = `beige ${verb.name} --help`;
  if (code !== "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
    const flag = flags.find((each) => text.includes(`--${each.name}`));
    const what = flag?.value === undefined ? `takes no value` : `needs a value: --${flag.name} ${flag.value}`;
    return new BeigeError("invalid", flag ? `--${flag.name} ${what}` : text, { hint: help });
  }
  const given = argv.find((each) => each === name || each.startsWith(`${name}=`))?.split("=")[0] ?? name;
  const near = given.startsWith("--")
    ? nearest(
        given.slice(2),
        flags.map((each) => each.name),
      )
    : undefined;
  const hint =
    near !== undefined
      ? `did you mean --${near}?`
      : verb.rest === true
        ? `put -- before the command: beige ${verb.name} ${verb.args}`
        : help;
  return new BeigeError("invalid", `unknown flag ${given} of "beige ${verb.name}"`, { hint });
}

function checkCount(verb: Verb, args: readonly string[]): void {
  const [fewest, most] = verb.takes;
  if (args.length < fewest)
    throw new BeigeError("invalid", `"beige ${verb.name}" needs ${verb.args}`, { hint: `beige ${verb.name} --help` });
  if (args.length > most) {
    const extra = args[most] ?? "";
    const file = /\.ya?ml$/.test(extra) && verb.flags.some((flag) => flag.name === "filename");
    throw new BeigeError("invalid", `"beige ${verb.name}" does not take "${extra}"`, {
      hint: file ? `beige ${verb.name} -f ${extra}` : `beige ${verb.name} ${verb.args}`.trim(),
    });
  }
}

export function parseInput(verb: Verb, argv: readonly string[]): Input {
  const cut = argv.indexOf("--");
  const before = cut < 0 ? argv : argv.slice(0, cut);
  const after = cut < 0 ? [] : argv.slice(cut + 1);
  const flags = [...verb.flags, ...GLOBAL.filter((global) => !verb.flags.some((own) => own.name === global.name))];
  let read;
  try {
    read = parseArgs({
      args: [...before],
      allowPositionals: true,
      options: Object.fromEntries(flags.map((flag) => [flag.name, option(flag)])),
    });
  } catch (error) {
    throw usage(error, verb, flags, before);
  }
  for (const flag of flags) {
    const value = read.values[flag.name];
    if (
      flag.choices &&
      typeof value === "string" &&
      !flag.choices.some((choice) => choice === value || (choice.endsWith("=") && value.startsWith(choice)))
    ) {
      throw new BeigeError("invalid", `--${flag.name} is one of ${flag.choices.join(", ")}, not "${value}"`, {
        hint: `beige ${verb.name} --help`,
      });
    }
  }
  const args = verb.rest === true ? read.positionals : [...read.positionals, ...after];
  const input: Input = { args, rest: verb.rest === true ? after : [], flags: read.values as Input["flags"] };
  if (input.flags["help"] !== true) checkCount(verb, args);
  return input;
}
