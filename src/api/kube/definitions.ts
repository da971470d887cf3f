// The kinds' JSON Schemas in the words of OpenAPI, with Kubernetes' metadata and our status: one source for both versions.
import type { KindInfo } from "../../core/control.ts";
import { resolve, type Schema } from "../../core/schema.ts";
import { GROUP, VERSION } from "../target.ts";

/** A part of OpenAPI's schema; `ref` is the name of a definition. */
export interface Definition {
  readonly ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Definition>>;
  readonly items?: Definition;
  readonly additionalProperties?: Definition;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  /** Anything may be in it. */
  readonly open?: true;
  readonly gvk?: Gvk;
}

export interface Gvk {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** One kind as both versions of the document need it. */
export interface Described {
  readonly name: string;
  readonly gvk: Gvk;
  readonly plural: string;
  readonly namespaced: boolean;
  readonly definition: Definition;
}

export const META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const text = (description: string): Definition => ({ type: "string", description });
const whole = (description: string): Definition => ({ type: "integer", description });
const list = (items: Definition, description: string): Definition => ({ type: "array", items, description });
const open = (description: string): Definition => ({ type: "object", description, open: true });
const texts = (description: string): Definition => ({ type: "object", additionalProperties: { type: "string" }, description });

const WRITTEN = "Written by beige.";
const properties = (fields: Readonly<Record<string, Definition>>): Definition => ({ type: "object", properties: fields });

export const metadata: Definition = {
  description: "Name, labels and annotations of an object; the rest is written by beige.",
  ...properties({
    name: text("Lower-case letters, digits and '-', at most 63 characters."),
    namespace: text("Namespace; 'default' when absent. Cluster-scoped kinds have none."),
    labels: texts("Words to select objects by."),
    annotations: texts("Notes that beige does not read."),
    uid: text(WRITTEN),
    resourceVersion: text(`${WRITTEN} In a write: the version that must still be there.`),
    generation: whole(`${WRITTEN} Moves when the spec changes.`),
    creationTimestamp: text(WRITTEN),
    deletionTimestamp: text(`${WRITTEN} Set while the object is on its way out.`),
    deletionGracePeriodSeconds: whole(WRITTEN),
    generateName: text("Not offered."),
    selfLink: text(WRITTEN),
    finalizers: list({ type: "string" }, WRITTEN),
    ownerReferences: list(open("An owner."), WRITTEN),
    managedFields: list(open("Who owns which fields."), `${WRITTEN} Who owns which fields.`),
  }),
};

const condition = properties({
  type: text("Ready, Progressing, Degraded, Drifted or Suspended."),
  status: text("True, False or Unknown."),
  reason: text("One word for machines."),
  message: text("A sentence for people."),
  lastTransitionTime: text("When the status last changed."),
  observedGeneration: whole("Generation that this is about."),
});

const status: Definition = {
  description: "What beige saw; written by beige.",
  ...properties({
    observedGeneration: whole("Generation that the conditions are about."),
    conditions: list(condition, "Whether it works, and why not."),
    observed: open("What the last look saw."),
  }),
  open: true,
};

/** A field of a kind. Where several shapes are allowed, any is: the gateway checks them. */
export function definitionOf(given: Schema): Definition {
  const schema = resolve(given);
  const about = {
    ...(schema.description !== undefined && { description: schema.description }),
    ...(schema.default !== undefined && { default: schema.default }),
  };
  if (schema.anyOf !== undefined || schema.type === undefined) return { ...about, open: true };
  const { additionalProperties: more } = schema;
  return {
    ...about,
    type: schema.type,
    ...(schema.enum !== undefined && { enum: schema.enum }),
    ...(schema.required !== undefined && { required: schema.required }),
    ...(schema.items !== undefined && { items: definitionOf(schema.items) }),
    ...(schema.properties !== undefined && { properties: members(schema.properties) }),
    ...(typeof more === "object" && { additionalProperties: definitionOf(more) }),
    ...(schema.type === "object" && schema.properties === undefined && typeof more !== "object" && { open: true as const }),
  };
}

const members = (fields: Readonly<Record<string, Schema>>): Readonly<Record<string, Definition>> =>
  Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, definitionOf(field)]));

const envelope = (kind: string) => ({
  apiVersion: text("Group and version of the kind."),
  kind: text(`Always ${kind}.`),
  metadata: { ref: META, description: "Name, labels and annotations." },
});

function own(info: KindInfo): Described {
  const schema = resolve(info.schema);
  const spec = schema.properties?.["spec"];
  const gvk = { group: GROUP, version: VERSION, kind: info.kind };
  return {
    name: `dev.beige.${VERSION}.${info.kind}`,
    gvk,
    plural: info.plural,
    namespaced: info.namespaced,
    definition: {
      ...(schema.description !== undefined && { description: schema.description }),
      ...properties({ ...envelope(info.kind), spec: spec === undefined ? open("") : definitionOf(spec), status }),
      gvk,
    },
  };
}

function projected(kind: string, plural: string, description: string): Described {
  const gvk = { group: "", version: "v1", kind };
  const namespaced = kind !== "Namespace";
  const definition = { description, ...properties({ ...envelope(kind), spec: open(""), status: open("") }), open: true, gvk } as const;
  return { name: `io.k8s.api.core.v1.${kind}`, gvk, plural, namespaced, definition };
}

const CORE: readonly Described[] = [
  projected("Namespace", "namespaces", "A namespace that objects are in. It comes with its first object and goes with its last."),
  projected("Event", "events", "Something that happened to an object."),
  projected("Pod", "pods", "The sandbox of an agent, for reading, logs and exec. Change the Agent instead."),
];

export const describedKinds = (kinds: readonly KindInfo[]): readonly Described[] => [...CORE, ...kinds.map(own)];

/** Query parameters of a PATCH. Their names tell clients what the server can do. */
export const PATCH_QUERY = ["dryRun", "fieldManager", "fieldValidation", "force"];

export const pathOf = ({ gvk, plural, namespaced }: Described): string =>
  `${gvk.group === "" ? "/api" : `/apis/${gvk.group}`}/${gvk.version}${namespaced ? "/namespaces/{namespace}" : ""}/${plural}/{name}`;
