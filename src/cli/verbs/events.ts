// beige events: what happened to objects, oldest first; -w goes on.
import { setTimeout as pause } from "node:timers/promises";
import type { EventRecord } from "../../core/control.ts";
import { BeigeError } from "../../core/errors.ts";
import { positive } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { nameOf, whenText } from "../render/values.ts";

const POLL_MS = 1_000;
const HEADERS = ["LAST", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"];

async function queryOf(context: Context, input: Input): Promise<string> {
  const query = new URLSearchParams({ limit: String(positive(word(input, "limit") ?? "100", "--limit", 1000)) });
  const namespace = word(input, "namespace");
  const about = word(input, "for");
  if (about !== undefined && input.args.length > 0) throw new BeigeError("invalid", "give an object or --for, not both");
  const args = about === undefined ? input.args : [about];
  if (args.length > 0) {
    const [target, second] = await targetsOf(context.client, args, namespace);
    if (target?.name === undefined || second !== undefined)
      throw new BeigeError("invalid", "events are those of one object, or of all", { hint: "beige events agent/NAME" });
    query.set("kind", target.kind.kind);
    query.set("name", target.name);
    if (target.namespace !== "") query.set("namespace", target.namespace);
  } else if (namespace !== undefined) query.set("namespace", namespace);
  return `/api/events?${query.toString()}`;
}

const byTime = (a: EventRecord, b: EventRecord): number => Date.parse(a.last) - Date.parse(b.last);
const row = (context: Context, event: EventRecord): readonly string[] => [
  whenText(context.out, event.last, context.now()),
  event.type,
  oneLine(event.reason),
  nameOf(event.ref),
  String(event.count),
  oneLine(event.message),
];

export const run: Run = async (context, input) => {
  const path = await queryOf(context, input);
  const json = word(input, "output") === "json";
  const read = async (): Promise<readonly EventRecord[]> =>
    (await context.client.get<{ readonly items: readonly EventRecord[] }>({ path })).items.toSorted(byTime);
  const first = await read();
  if (json && !on(input, "watch")) {
    await context.out.write(`${JSON.stringify({ items: first }, undefined, 2)}\n`);
    return 0;
  }
  let widths = await print(context, first, { json, widths: undefined });
  if (first.length === 0 && !json) context.out.note("no events");
  const seen = new Map(first.map((event) => [event.name, event.count]));
  while (on(input, "watch") && !context.signal.aborted) {
    await pause(POLL_MS, undefined, { signal: context.signal }).catch(() => undefined);
    if (context.signal.aborted) break;
    const fresh = (await read()).filter((event) => seen.get(event.name) !== event.count);
    for (const event of fresh) seen.set(event.name, event.count);
    widths = await print(context, fresh, { json, widths });
  }
  return 0;
};

async function print(
  context: Context,
  events: readonly EventRecord[],
  how: { readonly json: boolean; readonly widths: readonly number[] | undefined },
): Promise<readonly number[] | undefined> {
  if (how.json) {
    await context.out.write(events.map((event) => `${JSON.stringify(event)}\n`).join(""));
    return undefined;
  }
  if (events.length === 0) return how.widths;
  const drawn = drawTable(
    HEADERS,
    events.map((event) => row(context, event)),
    { ...(context.out.tty && { width: context.out.columns }), ...(how.widths && { least: how.widths }) },
  );
  await context.out.write(`${[...(how.widths ? [] : [context.out.paint("dim", drawn.header)]), ...drawn.rows].join("\n")}\n`);
  return drawn.widths;
}
