// Discovery: which groups, versions and kinds are served, as Kubernetes clients ask for them.
import type { FastifyInstance } from "fastify";
import type { KindInfo } from "../core/control.ts";
import { API_VERSION } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { route } from "./exchange.ts";
import { GROUP, ROOT, VERSION } from "./target.ts";

const groupVersion = { groupVersion: API_VERSION, version: VERSION };
const group = { name: GROUP, versions: [groupVersion], preferredVersion: groupVersion };
const VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"];

export function discoveryRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api", () => ({ kind: "APIVersions", versions: [], serverAddressByClientCIDRs: [] }));
  route(app, "GET /apis", () => ({ kind: "APIGroupList", apiVersion: "v1", groups: [group] }));
  route(app, `GET /apis/${GROUP}`, () => ({ kind: "APIGroup", apiVersion: "v1", ...group }));
  route(app, `GET ${ROOT}`, () => ({
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: API_VERSION,
    resources: deps.control.kinds().map(resource),
  }));
  route(app, "GET /version", () => version(deps.version));
}

const resource = (info: KindInfo): object => ({
  name: info.plural,
  singularName: info.kind.toLowerCase(),
  namespaced: info.namespaced,
  kind: info.kind,
  verbs: VERBS,
  shortNames: info.short,
  categories: [GROUP.split(".")[0], "all"],
});

function version(text: string): object {
  const [major = "0", minor = "0"] = text.split(".");
  return {
    major,
    minor,
    gitVersion: `v${text}`,
    gitCommit: "",
    gitTreeState: "",
    buildDate: "",
    goVersion: "",
    compiler: "",
    platform: "",
  };
}
