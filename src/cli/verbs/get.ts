// beige get: objects as a table, JSON, YAML or names; -w goes on with what changes.
import { API_VERSION, type Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Input, on, type Run, word, words } from "../flags.ts";
import { pathOf, refOfTarget, type Target, targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { nameOf } from "../render/values.ts";
import { neat } from "../neat.ts";
import { watchTargets, type WatchLine } from "../watch.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

interface RowObject {
  readonly metadata?: { readonly name: string; readonly namespace?: string; readonly labels?: Readonly<Record<string, string>> };
}

interface Table {
  readonly metadata?: { readonly resourceVersion?: string };
  readonly columnDefinitions?: readonly { readonly name: string; readonly priority?: number }[] | null;
  readonly rows?: readonly {
    readonly cells: readonly unknown[];
    readonly object?: RowObject;
  }[];
}

interface List {
  readonly items?: readonly Resource[];
  readonly metadata?: { readonly resourceVersion?: string };
}

export const run: Run = async (context, input) => {
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const how = word(input, "output") ?? "table";
  if (how === "table" || how === "wide") return tables(context, input, targets);
  if (on(input, "watch") && !["json", "name"].includes(how)) {
    throw new BeigeError("invalid", `-w goes with a table, json and name, not with -o ${how.replace(/=.*/s, "")}`);
  }
  if (on(input, "watch"))
    return watchTargets(
      context,
      targets.map((target) => queryOf(target, input)),
      {
        each: (event) => context.out.write(how === "json" ? `${JSON.stringify(neat(event.object))}\n` : `${nameOf(refIn(event.object))}\n`),
      },
    );
  return whole(context, input, { targets, how });
};

const refIn = (object: Resource) => ({ kind: object.kind, namespace: object.metadata.namespace ?? "", name: object.metadata.name });

function queryOf(target: Target, input: Input): string {
  const query = new URLSearchParams();
  const labels = word(input, "selector");
  const fields = word(input, "field-selector");
  if (labels !== undefined) query.set("labelSelector", labels);
  if (fields !== undefined) query.set("fieldSelector", fields);
  if ((labels !== undefined || fields !== undefined) && target.name !== undefined) {
    throw new BeigeError("invalid", "a selector and a name cannot be given together");
  }
  const text = query.toString();
  return `${pathOf(target, on(input, "all-namespaces") && target.name === undefined)}${text === "" ? "" : `?${text}`}`;
}

async function whole(context: Context, input: Input, of: { readonly targets: readonly Target[]; readonly how: string }): Promise<number> {
  const objects: Resource[] = [];
  for (const target of of.targets) {
    const answer = await context.client.get<List & Resource>({ path: queryOf(target, input) });
    objects.push(...(answer.items ?? [answer]));
  }
  const order = word(input, "sort-by");
  if (order !== undefined) {
    const { sortedBy } = await import("../columns.ts");
    objects.splice(0, objects.length, ...sortedBy(objects, order, (object) => object));
  }
  if (of.how === "name") {
    await context.out.write(objects.map((object) => `${nameOf(refIn(object))}\n`).join(""));
    return 0;
  }
  const managed = on(input, "show-managed-fields");
  const one = of.targets.length === 1 && of.targets[0]?.name !== undefined && objects.length === 1;
  if (of.how.startsWith("jsonpath=")) {
    const { jsonPath } = await import("../jsonpath.ts");
    const seen = objects.map((object) => neat(object, { managed, escape: false }));
    await context.out.write(jsonPath(of.how.slice("jsonpath=".length), one ? seen[0] : { apiVersion: "v1", kind: "List", items: seen }));
    return 0;
  }
  if (of.how.startsWith("custom-columns=")) {
    const { cellsOf, parseColumns } = await import("../columns.ts");
    const columns = parseColumns(of.how.slice("custom-columns=".length));
    const rows = objects.map((object) => cellsOf(columns, neat(object, { managed, escape: false })).map(oneLine));
    const drawn = drawTable(
      columns.map((each) => oneLine(each.header)),
      rows,
    );
    await context.out.write(`${[...(on(input, "no-headers") ? [] : [drawn.header]), ...drawn.rows].join("\n")}\n`);
    return 0;
  }
  const shown = objects.map((object) => neat(object, { managed, brief: of.how === "yaml" }));
  if (of.how === "json") {
    const value = one ? shown[0] : { apiVersion: API_VERSION, kind: "List", items: shown };
    await context.out.write(`${JSON.stringify(value, undefined, 2)}\n`);
    return 0;
  }
  const { yamlText } = await import("../offline.ts");
  await context.out.write(shown.map((object) => yamlText(object)).join("---\n"));
  return 0;
}

type Rows = NonNullable<Table["rows"]>;
const withObjects = (path: string): string => `${path}${path.includes("?") ? "&" : "?"}includeObject=Object`;

async function tables(context: Context, input: Input, targets: readonly Target[]): Promise<number> {
  const many = new Set(targets.map((target) => target.kind.kind)).size > 1;
  const widths = new Map<string, readonly number[]>();
  const versions = new Map<string, string>();
  const order = word(input, "sort-by");
  const columns = order === undefined ? undefined : await import("../columns.ts");
  const whole =
    order === undefined || columns === undefined
      ? undefined
      : (rows: Rows, of: (row: Rows[number]) => unknown) => columns.sortedBy(rows, order, of);
  let printed = 0;
  for (const group of byKind(targets)) {
    const parts: Table[] = [];
    for (const target of group) {
      const path = queryOf(target, input);
      const part = await context.client.get<Table>({ path: whole === undefined ? path : withObjects(path), accept: TABLE });
      if (part.metadata?.resourceVersion !== undefined) versions.set(path, part.metadata.resourceVersion);
      parts.push(whole === undefined ? part : { ...part, rows: whole(part.rows ?? [], (row) => row.object) });
    }
    const drawn = draw(context, input, { parts, kind: group[0] as Target, many, widths });
    if (drawn === "") continue;
    await context.out.write(`${printed > 0 ? "\n" : ""}${drawn}`);
    printed += 1;
  }
  if (printed === 0)
    context.out.note(
      `no ${many ? "objects" : (targets[0]?.kind.plural ?? "objects")} found${on(input, "all-namespaces") ? "" : namespaceText(targets)}`,
    );
  if (!on(input, "watch")) return 0;
  return watchTargets(
    context,
    targets.map((target) => queryOf(target, input)),
    { from: (path) => versions.get(path), each: (event, path) => watched(context, input, { event, path, targets, many, widths }) },
  );
}

interface Watched extends Pick<Draw, "many" | "widths"> {
  readonly event: WatchLine;
  readonly path: string;
  readonly targets: readonly Target[];
}

/** The row of an object that changed, below those that were there. */
async function watched(context: Context, input: Input, of: Watched): Promise<void> {
  const { event, targets, widths } = of;
  const target = targets.find((each) => queryOf(each, input) === of.path) as Target;
  const mine: Target = { ...target, name: event.object.metadata.name, namespace: event.object.metadata.namespace ?? "" };
  if (event.type === "DELETED") return context.out.write(`${nameOf(refOfTarget(mine))} deleted\n`);
  const table = await context.client.get<Table>({ path: pathOf(mine), accept: TABLE }).catch((error: unknown) => {
    if (error instanceof BeigeError && error.code === "not_found") return undefined;
    throw error;
  });
  if (table === undefined) return;
  const headed = widths.has(target.kind.kind) && !on(input, "no-headers");
  const lines = draw(context, input, { parts: [table], kind: target, many: of.many, widths });
  return context.out.write(headed ? lines.slice(lines.indexOf("\n") + 1) : lines);
}

const cellText = (cell: unknown): string =>
  typeof cell === "string" ? cell : cell === undefined || cell === null ? "" : JSON.stringify(cell);

const namespaceText = (targets: readonly Target[]): string => {
  const namespace = targets.find((target) => target.kind.namespaced)?.namespace;
  return namespace === undefined ? "" : ` in namespace ${namespace}`;
};

function byKind(targets: readonly Target[]): readonly (readonly Target[])[] {
  const groups = new Map<string, Target[]>();
  for (const target of targets) groups.set(target.kind.kind, [...(groups.get(target.kind.kind) ?? []), target]);
  return [...groups.values()];
}

interface Draw {
  readonly parts: readonly Table[];
  readonly kind: Target;
  readonly many: boolean;
  /** Widths of each kind's columns so far, so that a watch stays aligned. */
  readonly widths: Map<string, readonly number[]>;
}

function draw(context: Context, input: Input, of: Draw): string {
  const columns = of.parts.find((part) => (part.columnDefinitions ?? []).length > 0)?.columnDefinitions ?? [];
  const wide = word(input, "output") === "wide";
  const kept = columns.map((column, i) => ({ column, i })).filter(({ column }) => wide || (column.priority ?? 0) === 0);
  const everywhere = on(input, "all-namespaces") && of.kind.kind.namespaced;
  const labels = words(input, "label-columns")
    .flatMap((each) => each.split(","))
    .filter(Boolean);
  const rows = of.parts
    .flatMap((part) => part.rows ?? [])
    .map((row) => {
      const cells = kept.map(({ column, i }) => {
        const text = oneLine(cellText(row.cells[i]));
        return of.many && column.name.toLowerCase() === "name" ? `${of.kind.kind.kind.toLowerCase()}/${text}` : text;
      });
      const shown = labels.map((label) => oneLine(row.object?.metadata?.labels?.[label] ?? ""));
      return [...(everywhere ? [oneLine(row.object?.metadata?.namespace ?? "")] : []), ...cells, ...shown];
    });
  if (rows.length === 0) return "";
  const headers = [
    ...(everywhere ? ["NAMESPACE"] : []),
    ...[...kept.map(({ column }) => column.name), ...labels.map((label) => label.slice(label.lastIndexOf("/") + 1))].map((name) =>
      oneLine(name).toUpperCase(),
    ),
  ];
  const least = of.widths.get(of.kind.kind.kind);
  const drawn = drawTable(headers, rows, { ...(context.out.tty && { width: context.out.columns }), ...(least && { least }) });
  of.widths.set(of.kind.kind.kind, drawn.widths);
  return `${[...(on(input, "no-headers") ? [] : [context.out.paint("dim", drawn.header)]), ...drawn.rows].join("\n")}\n`;
}
