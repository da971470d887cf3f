// Discovery: which groups, versions and kinds are served, one by one and in the aggregated form of newer clients.
import type { FastifyInstance } from "fastify";
import type { RouteDeps } from "../deps.ts";
import { route, type Exchange } from "../exchange.ts";
import { served, type Served } from "./served.ts";

/** The level of Kubernetes' API that clients may expect; only its number is compared. */
const LEVEL = { major: "1", minor: "33" };

export function discoveryRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const all = (): readonly Served[] => served(deps.control.kinds());
  const groups = [...new Set(all().map((each) => each.group))];
  const named = groups.filter((name) => name !== "");
  route(app, "GET /api", (exchange) => aggregated(exchange, [""], all()) ?? { kind: "APIVersions", versions: ["v1"] });
  route(app, "GET /apis", (exchange) => {
    return aggregated(exchange, named, all()) ?? { kind: "APIGroupList", apiVersion: "v1", groups: named.map(group) };
  });
  route(app, "GET /api/v1", () => resources("", all()));
  for (const name of named) {
    route(app, `GET /apis/${name}`, () => ({ kind: "APIGroup", apiVersion: "v1", ...group(name) }));
    route(app, `GET /apis/${name}/v1`, () => resources(name, all()));
  }
  route(app, "GET /version", () => version(deps.version));
}

function group(name: string): { readonly name: string } {
  const preferredVersion = { groupVersion: `${name}/v1`, version: "v1" };
  return { name, versions: [preferredVersion], preferredVersion } as { readonly name: string };
}

const verbsOf = (verbs: readonly string[]): { readonly verbs: readonly string[] } => ({ verbs });

function resources(name: string, all: readonly Served[]): object {
  const ours = all.filter((each) => each.group === name);
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: name === "" ? "v1" : `${name}/v1`,
    resources: ours.flatMap((each) => {
      const { plural, singular, namespaced, kind, short, categories } = each;
      const whole = { name: plural, singularName: singular, namespaced, kind, ...verbsOf(each.verbs), shortNames: short, categories };
      const parts = each.subresources.map((sub) => ({
        name: `${plural}/${sub.name}`,
        singularName: "",
        namespaced,
        kind: sub.kind,
        ...verbsOf(sub.verbs),
      }));
      return [whole, ...parts];
    }),
  };
}

/** The whole of discovery in one answer, when the client asks for it in a version that we speak. */
function aggregated({ request, reply }: Exchange, groups: readonly string[], all: readonly Served[]): object | undefined {
  const accept = request.headers.accept ?? "";
  const asked = accept.split(",").find((form) => form.includes("as=APIGroupDiscoveryList") && /;v=v2(beta1)?;/.test(form));
  if (asked === undefined) return undefined;
  const form = asked.includes(";v=v2beta1;") ? "v2beta1" : "v2";
  reply.type(`application/json;g=apidiscovery.k8s.io;v=${form};as=APIGroupDiscoveryList`);
  const items = groups.map((name) => ({
    metadata: { ...(name !== "" && { name }), creationTimestamp: null },
    versions: [{ version: "v1", freshness: "Current", resources: all.filter((each) => each.group === name).map(described) }],
  }));
  return { kind: "APIGroupDiscoveryList", apiVersion: `apidiscovery.k8s.io/${form}`, metadata: {}, items };
}

function described(each: Served): object {
  const { group: name, version: v, kind, plural, singular, verbs, short, categories } = each;
  const subresources = each.subresources.map((sub) => ({
    subresource: sub.name,
    responseKind: { group: sub.group, version: sub.version, kind: sub.kind },
    verbs: sub.verbs,
  }));
  return {
    resource: plural,
    responseKind: { group: name, version: v, kind },
    scope: each.namespaced ? "Namespaced" : "Cluster",
    singularResource: singular,
    verbs,
    ...(short.length > 0 && { shortNames: short }),
    ...(categories.length > 0 && { categories }),
    ...(subresources.length > 0 && { subresources }),
  };
}

function version(ours: string): object {
  const none = { gitCommit: "", gitTreeState: "", buildDate: "", goVersion: "", compiler: "", platform: "" };
  return { ...LEVEL, gitVersion: `v${LEVEL.major}.${LEVEL.minor}.0+beige.${ours}`, ...none };
}
