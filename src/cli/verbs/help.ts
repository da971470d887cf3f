// beige help: the overview, a verb, a topic, or everything as JSON.
import { BeigeError } from "../../core/errors.ts";
import { nearest } from "../../core/text.ts";
import { type Run, on } from "../flags.ts";
import { groupHelp, helpJson, overview, TOPICS, verbHelp } from "../help.ts";
import { groupOf } from "../parse.ts";
import { version } from "../place.ts";
import { verbs } from "../verbs.ts";

/** The help on some words. */
export function helpOn(words: readonly string[]): string {
  if (words.length === 0) return overview(verbs);
  const name = words.join(" ");
  const topic = TOPICS[name];
  if (topic !== undefined) return topic;
  const verb = verbs.find((each) => each.name === name);
  if (verb) return verbHelp(verb);
  if (groupOf(name, verbs).length > 0) return groupHelp(name, verbs);
  const near = nearest(name, [...verbs.map((each) => each.name), ...Object.keys(TOPICS)]);
  throw new BeigeError("invalid", `there is no help on "${name}"`, {
    hint: near === undefined ? "beige help" : `did you mean "beige help ${near}"?`,
  });
}

export const run: Run = async (context, input) => {
  await context.out.write(on(input, "json") ? helpJson(verbs, version()) : helpOn(input.args));
  return 0;
};
