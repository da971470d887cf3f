// beige version: of this program, and with -o json or --gateway also of the gateway.
import { type Run, on, word } from "../flags.ts";
import { health } from "../gateway.ts";
import { version } from "../place.ts";

export const run: Run = async (context, input) => {
  const mine = version();
  const json = word(input, "output") === "json";
  if (!json && !on(input, "gateway")) {
    await context.out.write(`beige ${mine}\n`);
    return 0;
  }
  const seen = await health(context.home, context.signal);
  const theirs = typeof seen.body?.["version"] === "string" ? seen.body["version"] : undefined;
  if (json)
    await context.out.write(
      `${JSON.stringify({ cli: mine, node: process.versions.node, ...(theirs !== undefined && { gateway: theirs }) })}\n`,
    );
  else await context.out.write(`beige ${mine}\ngateway ${theirs ?? "does not answer"}\n`);
  return 0;
};
