// What a resource path means: which kind, and which object. Names are checked here, so that no path trick goes further.
import type { Control, KindInfo } from "../core/control.ts";
import { API_VERSION, DEFAULT_NAMESPACE, type Ref } from "../core/resource.ts";
import type { Unknowns } from "./fields.ts";
import { record } from "./fields.ts";
import { badRequest, Refusal } from "./status.ts";

export const GROUP = "beige.dev";
export const VERSION = "v1";
export const ROOT = `/apis/${API_VERSION}`;

const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export function checkName(value: string | undefined, what: string): string {
  if (value !== undefined && NAME.test(value)) return value;
  throw badRequest(`${JSON.stringify(value ?? "")} is not a ${what}`, "lower-case letters, digits and '-', at most 63 characters");
}

export interface Collection {
  readonly info: KindInfo;
  /** Absent for cluster kinds, and for all namespaces. */
  readonly namespace?: string;
}

type Params = Readonly<Record<string, string | undefined>>;

export function collectionOf(control: Control, params: Params): Collection {
  const info = control.kinds().find((k) => k.plural === params.plural);
  if (info === undefined)
    throw new Refusal(
      404,
      "NotFound",
      "the server has no such kind",
      `known: ${control
        .kinds()
        .map((k) => k.plural)
        .join(", ")}`,
    );
  if (params.namespace === undefined) return { info };
  if (!info.namespaced) throw new Refusal(404, "NotFound", `${info.plural} have no namespace`, `use ${ROOT}/${info.plural}`);
  return { info, namespace: checkName(params.namespace, "namespace") };
}

export function refOf(control: Control, params: Params): Ref {
  const { info, namespace } = collectionOf(control, params);
  if (info.namespaced && namespace === undefined)
    throw new Refusal(
      404,
      "NotFound",
      `${info.plural} are found in a namespace`,
      `use ${ROOT}/namespaces/${DEFAULT_NAMESPACE}/${info.plural}/NAME`,
    );
  return { kind: info.kind, namespace: namespace ?? "", name: checkName(params.name, "name") };
}

/** The kind by its name, plural or short name in any case, as people type it. */
export function kindNamed(control: Control, word: string): KindInfo {
  const lower = word.toLowerCase();
  const info = control.kinds().find((k) => [k.kind.toLowerCase(), k.plural, ...k.short].includes(lower));
  if (info === undefined)
    throw new Refusal(
      404,
      "NotFound",
      `unknown kind ${JSON.stringify(word)}`,
      `known: ${control
        .kinds()
        .map((k) => k.kind)
        .join(", ")}`,
    );
  return info;
}

/** The reference that a body makes must be the path's, wherever it says anything. */
export function sameTarget(body: Unknowns, ref: Ref): void {
  agree(body.apiVersion, API_VERSION, "apiVersion");
  agree(body.kind, ref.kind, "kind");
  if (body.metadata === undefined) return;
  const metadata = record(body.metadata, "metadata");
  agree(metadata.name, ref.name, "metadata.name");
  if (metadata.namespace !== "") agree(metadata.namespace, ref.namespace, "metadata.namespace");
}

function agree(said: unknown, wanted: string, field: string): void {
  if (said !== undefined && said !== wanted)
    throw badRequest(`${field} is ${JSON.stringify(said)} in the body and ${JSON.stringify(wanted)} in the path`);
}

/** The reference of an object to be created in a collection. */
export function newRef(collection: Collection, body: Unknowns): Ref {
  const metadata = record(body.metadata, "metadata");
  if (metadata.name === undefined && metadata.generateName !== undefined)
    throw badRequest("generateName is not offered", "give metadata.name");
  const name = checkName(typeof metadata.name === "string" ? metadata.name : "", "name");
  const said = typeof metadata.namespace === "string" && metadata.namespace !== "" ? metadata.namespace : undefined;
  if (!collection.info.namespaced) return { kind: collection.info.kind, namespace: "", name };
  return { kind: collection.info.kind, namespace: collection.namespace ?? checkName(said ?? DEFAULT_NAMESPACE, "namespace"), name };
}
