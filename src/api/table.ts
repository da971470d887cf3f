// Objects as a meta.k8s.io Table, when the Accept header asks for one: the columns come from the kind.
import type { KindInfo } from "../core/control.ts";
import type { Column } from "../core/kind.ts";
import type { Resource } from "../core/resource.ts";
import { onWire } from "./render.ts";
import { badRequest, Refusal } from "./status.ts";

/** What goes along with each row. */
export type RowObject = "None" | "Metadata" | "Object";

export interface TableForm {
  readonly rowObject: RowObject;
  /** Milliseconds since the epoch, for ages. */
  readonly now: number;
}

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

/** `head` is false for the later events of a watch, which repeat no column definitions. */
export function table(
  info: KindInfo,
  objects: readonly Resource[],
  options: TableForm & { readonly resourceVersion: string; readonly head: boolean },
): object {
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: { resourceVersion: options.resourceVersion },
    columnDefinitions: options.head ? info.columns.map(definition) : null,
    rows: objects.map((object) => row(info, object, options)),
  };
}

const definition = (column: Column): object => ({
  name: column.name,
  type: "string",
  format: column.name.toLowerCase() === "name" ? "name" : "",
  description: column.description,
  priority: column.priority,
});

function row(info: KindInfo, object: Resource, form: TableForm): object {
  const cells = info.columns.map((column) => column.value(object, form.now));
  if (form.rowObject === "None") return { cells };
  const whole = onWire(object) as { readonly metadata: object };
  if (form.rowObject === "Object") return { cells, object: whole };
  return { cells, object: { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: whole.metadata } };
}
