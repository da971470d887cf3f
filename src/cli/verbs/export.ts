// beige export: all objects as manifests that can be applied again, or as a snapshot for comparisons elsewhere.
import type { Resource } from "../../core/resource.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { KINDS, pathOf, type Target, targetsOf } from "../names.ts";
import { neat } from "../neat.ts";
import { redacted, snapshotOf } from "../snapshot.ts";

async function chosen(context: Context, input: Input): Promise<readonly Resource[]> {
  const args = input.args.length === 0 ? ["all"] : input.args;
  const targets = (await targetsOf(context.client, args, word(input, "namespace"))).map((target): Target => ({ ...target }));
  const objects: Resource[] = [];
  for (const target of targets) {
    const path = pathOf(target, on(input, "all-namespaces") && target.name === undefined);
    const answer = await context.client.get<{ readonly items?: readonly Resource[] } & Resource>({ path });
    objects.push(...(answer.items ?? [answer]).map((object) => ({ ...object, kind: target.kind.kind })));
  }
  const rank = (object: Resource): number => KINDS.findIndex((kind) => kind.kind === object.kind);
  // In the order in which they are applied; by name, so that the same objects give the same text.
  const key = ({ metadata }: Resource): string => `${metadata.namespace ?? ""} ${metadata.name}`;
  return objects
    .filter((object) => object.metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => rank(a) - rank(b) || (key(a) < key(b) ? -1 : 1));
}

export const run: Run = async (context, input) => {
  const objects = await chosen(context, input);
  const hide = on(input, "redact");
  if (word(input, "output") === "json") {
    await context.out.write(`${JSON.stringify(snapshotOf(objects, hide), undefined, 2)}\n`);
    return 0;
  }
  const { yamlText } = await import("../offline.ts");
  const shown = objects.map((object) => neat(object, { brief: true }));
  await context.out.write(shown.map((object) => yamlText(hide ? redacted(object) : object)).join("---\n"));
  if (objects.length === 0) context.out.note("there are no objects");
  return 0;
};
