// The shape of every object: Kubernetes' envelope around a spec, and the reference that names one.
import type { AgentSpec, PluginSpec, ProviderSpec, ScheduleSpec, SourceSpec } from "../../schemas/types.ts";

export const API_VERSION = "beige.dev/v1";
export const DEFAULT_NAMESPACE = "default";
/** Annotation: whoever sets it to another value wants the object's runtime part made anew. */
export const RESTARTED_AT = "beige.dev/restarted-at";

export type ConditionType = "Ready" | "Progressing" | "Degraded" | "Drifted" | "Suspended" | "Hardened" | "Deleting";

export interface Condition {
  readonly type: ConditionType;
  readonly status: "True" | "False" | "Unknown";
  /** One CamelCase word for machines. */
  readonly reason: string;
  /** A sentence for people; empty when there is nothing to say. */
  readonly message: string;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  readonly observedGeneration: number;
}

export interface Status {
  readonly observedGeneration: number;
  readonly conditions: readonly Condition[];
  /** What the kind's plan said it saw; shown by get and describe. */
  readonly observed?: Readonly<Record<string, unknown>>;
}

/** Who owns which leaf paths, as Kubernetes writes it. */
export interface ManagedFields {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly time: string;
  readonly fieldsType: "FieldsV1";
  readonly fieldsV1: object;
}

export interface ObjectMeta {
  readonly name: string;
  /** Empty for cluster-scoped kinds. */
  readonly namespace: string;
  readonly uid: string;
  /** Store-wide and growing, as text. */
  readonly resourceVersion: string;
  /** Moves when the spec changes. */
  readonly generation: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFields[];
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
}

export interface Resource<K extends string = string, S = unknown> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: K;
  readonly metadata: ObjectMeta;
  /** Normalised: every default of the schema is filled in. */
  readonly spec: S;
  readonly status?: Status;
}

export type Provider = Resource<"Provider", ProviderSpec>;
export type Plugin = Resource<"Plugin", PluginSpec>;
export type Agent = Resource<"Agent", AgentSpec>;
export type Schedule = Resource<"Schedule", ScheduleSpec>;
export type Source = Resource<"Source", SourceSpec>;

/** Names one object. `namespace` is empty for cluster-scoped kinds. */
export interface Ref {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export const refOf = (r: Resource): Ref => ({ kind: r.kind, namespace: r.metadata.namespace, name: r.metadata.name });

/** A key for maps and queues, unique over kinds and namespaces. */
export const refKey = (ref: Ref): string => `${ref.kind}/${ref.namespace}/${ref.name}`;

/** As people write it: `agent/travel`, or `agent/team.travel` outside the default namespace. */
export const refName = (ref: Ref): string => `${ref.kind.toLowerCase()}/${nsName(ref.namespace, ref.name)}`;

/** NAME in the default namespace (or without one), else NS.NAME. */
export const nsName = (namespace: string, name: string): string =>
  namespace === "" || namespace === DEFAULT_NAMESPACE ? name : `${namespace}.${name}`;

/** The condition of a type, if the object has one. */
export const condition = (r: Resource, type: ConditionType): Condition | undefined => r.status?.conditions.find((c) => c.type === type);
