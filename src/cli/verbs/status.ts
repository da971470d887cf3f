// beige status: one line for each object that is not well, sources first; nothing to say is good news.
import type { Condition, ConditionType, Resource } from "../../core/resource.ts";
import { type Context, type Run, word } from "../flags.ts";
import { KINDS, pathOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { count } from "../render/plan.ts";
import { drawTable } from "../render/table.ts";
import { nameOf } from "../render/values.ts";

interface Finding {
  readonly object: string;
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
}

const conditionOf = (object: Resource, type: ConditionType): Condition | undefined =>
  object.status?.conditions.find((each) => each.type === type);

/** Undefined for what is well, or rests. */
export function findingOf(object: Resource): Finding | undefined {
  const name = nameOf({ kind: object.kind, namespace: object.metadata.namespace ?? "", name: object.metadata.name });
  const ready = conditionOf(object, "Ready");
  if (ready === undefined || ready.observedGeneration < object.metadata.generation)
    return { object: name, ready: false, reason: "New", message: "the newest spec has not been looked at yet" };
  if (conditionOf(object, "Suspended")?.status === "True") return undefined;
  const { reason, message } = ready;
  if (ready.status !== "True") return { object: name, ready: false, reason, message };
  const ill = (["Degraded", "Drifted"] as const).map((type) => conditionOf(object, type)).find((each) => each?.status === "True");
  return ill === undefined ? undefined : { object: name, ready: true, reason: ill.type, message: ill.message };
}

async function all(context: Context): Promise<readonly Resource[]> {
  const sourcesFirst = [...KINDS.filter(({ kind }) => kind === "Source"), ...KINDS.filter(({ kind }) => kind !== "Source")];
  const objects: Resource[] = [];
  for (const kind of sourcesFirst) {
    const list = await context.client.get<{ readonly items: readonly Resource[] }>({ path: pathOf({ kind, namespace: "" }, true) });
    objects.push(...list.items.map((object) => ({ ...object, kind: kind.kind })));
  }
  return objects;
}

export const run: Run = async (context, input) => {
  const objects = await all(context);
  const findings = objects.flatMap((object) => findingOf(object) ?? []);
  const paused = objects.filter((object) => conditionOf(object, "Suspended")?.status === "True").length;
  const failing = findings.filter((finding) => !finding.ready).length;
  if (word(input, "output") === "json")
    await context.out.write(`${JSON.stringify({ ok: failing === 0, objects: objects.length, paused, findings }, undefined, 2)}\n`);
  else {
    const rows = findings.map(({ object, ready, reason, message }) => [object, ready ? "yes" : "no", reason, oneLine(message)]);
    const drawn = drawTable(["OBJECT", "READY", "REASON", "WHY"], rows, context.out.tty ? { width: context.out.columns } : {});
    const table = rows.length === 0 ? "" : `${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`;
    const resting = paused === 0 ? "" : `, ${paused} paused`;
    const verdict =
      failing === 0
        ? `${count(objects.length, "object")}, all ready${resting}`
        : `${failing} of ${count(objects.length, "object")} not ready${resting}`;
    await context.out.write(`${table}${verdict}\n`);
  }
  return failing === 0 ? 0 : 1;
};
