// Everything that Kubernetes clients may ask for here, in one list: discovery, access reviews and refusals read it.
import type { KindInfo } from "../../core/control.ts";
import { GROUP, VERSION } from "../target.ts";

export interface Subresource {
  readonly name: string;
  readonly kind: string;
  readonly group: string;
  readonly version: string;
  readonly verbs: readonly string[];
}

export interface Served {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly short: readonly string[];
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly categories: readonly string[];
  readonly subresources: readonly Subresource[];
}

const READ = ["get", "list", "watch"];
const WRITE = ["create", "delete", "get", "list", "patch", "update", "watch"];
export const AUTHORIZATION = "authorization.k8s.io";
export const AUTHENTICATION = "authentication.k8s.io";

function core(kind: string, plural: string, more: Partial<Served>): Served {
  const fixed = { group: "", version: "v1", singular: kind.toLowerCase(), namespaced: true, verbs: READ };
  return { ...fixed, kind, plural, short: [], categories: [], subresources: [], ...more };
}

function review(group: string, kind: string): Served {
  const plural = `${kind.toLowerCase()}s`;
  return core(kind, plural, { group, namespaced: false, verbs: ["create"] });
}

/** What is projected from objects of beige, and the questions that a client may ask about itself. */
const FIXED: readonly Served[] = [
  core("Namespace", "namespaces", { short: ["ns"], namespaced: false, verbs: ["create", "get", "list", "patch", "watch"] }),
  core("Event", "events", { short: ["ev"] }),
  core("Pod", "pods", {
    short: ["po"],
    categories: ["all"],
    subresources: [
      { name: "log", kind: "Pod", group: "", version: "v1", verbs: ["get"] },
      { name: "exec", kind: "PodExecOptions", group: "", version: "v1", verbs: ["create", "get"] },
    ],
  }),
  // Nothing can be done with them: known by name alone, so that clients ask, and hear what to use instead.
  core("Secret", "secrets", { verbs: [] }),
  core("ConfigMap", "configmaps", { short: ["cm"], verbs: [] }),
  review(AUTHORIZATION, "SelfSubjectAccessReview"),
  review(AUTHORIZATION, "SelfSubjectRulesReview"),
  review(AUTHENTICATION, "SelfSubjectReview"),
];

const own = (info: KindInfo): Served => ({
  group: GROUP,
  version: VERSION,
  kind: info.kind,
  plural: info.plural,
  singular: info.kind.toLowerCase(),
  short: info.short,
  namespaced: info.namespaced,
  verbs: WRITE,
  categories: ["all", "beige"],
  subresources: [{ name: "status", kind: info.kind, group: GROUP, version: VERSION, verbs: ["get"] }],
});

export const served = (kinds: readonly KindInfo[]): readonly Served[] => [...kinds.map(own), ...FIXED];
