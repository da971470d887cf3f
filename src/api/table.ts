// Objects as a meta.k8s.io Table, when the Accept header asks for one: the columns come from the kind.
import type { KindInfo } from "../core/control.ts";
import type { Column } from "../core/kind.ts";
import type { Resource } from "../core/resource.ts";
import { onWire } from "./render.ts";
import { badRequest, Refusal } from "./status.ts";

/** What goes along with each row. */
export type RowObject = "None" | "Metadata" | "Object";

/** An object as it stands on the wire, and what a table says of it. */
export interface Item {
  readonly whole: { readonly metadata: { readonly resourceVersion: string } };
  /** `now` in milliseconds since the epoch. */
  readonly cells: (now: number) => readonly (string | number)[];
}

export type Heading = Pick<Column, "name" | "priority" | "description">;

export const itemOf = (info: KindInfo, object: Resource): Item => ({
  whole: onWire(object) as Item["whole"],
  cells: (now) => info.columns.map((column) => column.value(object, now)),
});

/** The first form of an Accept header that we speak. */
export function wantsTable(accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === "") return false;
  for (const choice of accept.split(",")) {
    const [type, ...parameters] = choice.split(";").map((part) => part.trim().toLowerCase());
    const as = parameters.find((p) => p.startsWith("as="));
    if (as === "as=table") return true;
    if (as === undefined && (type === "application/json" || type === "*/*" || type === "application/*")) return false;
  }
  throw new Refusal(406, "NotAcceptable", "only JSON is served", "Accept: application/json");
}

export function rowObject(value: string | undefined): RowObject {
  if (value === undefined || value === "" || value === "Metadata") return "Metadata";
  if (value === "None" || value === "Object") return value;
  throw badRequest("includeObject must be None, Metadata or Object");
}

export interface TableForm {
  readonly rowObject: RowObject;
  /** Milliseconds since the epoch, for ages. */
  readonly now: number;
  readonly resourceVersion: string;
  /** False for the later events of a watch, which repeat no column definitions. */
  readonly head: boolean;
}

export function table(columns: readonly Heading[], items: readonly Item[], form: TableForm): object {
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: { resourceVersion: form.resourceVersion },
    columnDefinitions: form.head ? columns.map(definition) : null,
    rows: items.map((item) => row(item, form)),
  };
}

const definition = (column: Heading): object => ({
  name: column.name,
  type: "string",
  format: column.name.toLowerCase() === "name" ? "name" : "",
  description: column.description,
  priority: column.priority,
});

function row(item: Item, form: TableForm): object {
  const cells = item.cells(form.now);
  if (form.rowObject === "None") return { cells };
  if (form.rowObject === "Object") return { cells, object: item.whole };
  return { cells, object: { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: item.whole.metadata } };
}
