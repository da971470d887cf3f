// beige bugreport: what is needed to understand a fault, in a folder of its own, without secrets, prompts and names of people.
import { mkdirSync, writeFileSync } from "node:fs";
import { arch, homedir, hostname, release, userInfo } from "node:os";
import { join, resolve } from "node:path";
import type { Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Input, type Run, word } from "../flags.ts";
import { lastLines } from "../follow.ts";
import { health } from "../gateway.ts";
import { KINDS, pathOf } from "../names.ts";
import { version } from "../place.ts";
import { redacted } from "../snapshot.ts";
import { hiderOf, secretValues } from "../values.ts";
import { findings } from "./doctor.ts";

const LOG_LINES = 500;
const README = `What is in this folder, for a bug report of beige:

  versions.json   of beige, Node and the system
  health.json     what the gateway says of itself
  doctor.json     what beige doctor finds
  objects.json    all objects with their status; instructions and inputs are left out, values of environments too
  events.json     what happened to them
  gateway.log     the last ${LOG_LINES} lines of the gateway's log

Secrets that this machine keeps were searched for in every file and replaced by [secret]; the home folder is ~, the user
USER, the host HOST. Please read it before you send it: it is text.
`;

/** What people wrote for a model is theirs. */
function withoutTexts(value: unknown, key = ""): unknown {
  if (typeof value === "string")
    return key === "instructions" || key === "input" || key === "text" ? `(${value.length} characters)` : value;
  if (Array.isArray(value)) return value.map((item) => withoutTexts(item, key));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutTexts(item, name)]));
}

async function objects(context: Context): Promise<unknown> {
  const lists = KINDS.map(async (kind) => {
    const { items } = await context.client.get<{ readonly items: readonly Resource[] }>({
      path: pathOf({ kind, namespace: "" }, true),
      idleMs: 10_000,
    });
    return items.map((object) => withoutTexts(redacted({ ...object, kind: kind.kind })));
  });
  return (await Promise.all(lists)).flat();
}

/** What cannot be had is said in its place: a report of a broken machine is what is wanted. */
async function orWhy(ask: () => Promise<unknown>): Promise<unknown> {
  try {
    return await ask();
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
}

async function collected(context: Context, input: Input): Promise<Readonly<Record<string, string>>> {
  const seen = await health(context.home, context.signal);
  const text = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;
  const log = await orWhy(async () => (await lastLines(join(context.home, "logs/gateway.log"), LOG_LINES, () => true)).lines.join("\n"));
  return {
    "README.txt": README,
    "versions.json": text({
      beige: version(),
      node: process.versions.node,
      platform: process.platform,
      arch: arch(),
      kernel: release(),
      gateway: seen.body?.["version"],
    }),
    "health.json": text(seen.body ?? { missing: "no gateway answers" }),
    "doctor.json": text(await orWhy(() => findings(context, input))),
    "objects.json": text(await orWhy(() => objects(context))),
    "events.json": text(await orWhy(() => context.client.get({ path: "/api/events?limit=500", idleMs: 10_000 }))),
    "gateway.log": typeof log === "string" ? `${log}\n` : text(log),
  };
}

/** Names of the person and the machine, and where they live. */
function anonymous(text: string, home: string): string {
  const named = [
    [home, "BEIGE_HOME"],
    [homedir(), "~"],
    [hostname(), "HOST"],
    [userInfo().username, "USER"],
  ] as const;
  return named.reduce((left, [name, stands]) => (name.length < 4 || name === "root" ? left : left.replaceAll(name, stands)), text);
}

export const run: Run = async (context, input) => {
  const stamp = new Date(context.now()).toISOString().replaceAll(/[-:]/g, "").slice(0, 15);
  const folder = resolve(context.cwd, word(input, "dir") ?? `beige-bugreport-${stamp}`);
  const hider = hiderOf(await secretValues(context));
  const files = Object.entries(await collected(context, input)).map(
    ([name, text]) => [name, name === "README.txt" ? text : anonymous(hider.hide(text), context.home)] as const,
  );
  // Searched for once more in what would be written: replacing may have made a value out of its neighbours.
  const leak = files.find(([, text]) => hider.finds(text));
  if (leak !== undefined) throw new BeigeError("internal", `a secret would be in ${leak[0]}: nothing was written`);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    throw new BeigeError("invalid", `cannot make ${folder}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
      hint: "--dir names another one",
    });
  }
  for (const [name, text] of files) writeFileSync(join(folder, name), text, { mode: 0o600, flag: "wx" });
  await context.out.write(`${folder}\n`);
  context.out.note("please read it before you send it");
  return 0;
};
