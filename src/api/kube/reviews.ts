// What a client may do here, as it may ask about itself: what its role allows, within what is served.
import type { FastifyInstance } from "fastify";
import type { Principal } from "../../core/call.ts";
import { DEFAULT_NAMESPACE, nsName } from "../../core/resource.ts";
import { principalName } from "../../core/who.ts";
import { roleAllows } from "../allow.ts";
import type { RouteDeps } from "../deps.ts";
import { bodyOf, byOf, route, type Exchange } from "../exchange.ts";
import { optionalText, record, type Unknowns } from "../fields.ts";
import { badRequest } from "../status.ts";
import { AUTHENTICATION, AUTHORIZATION, served, type Served } from "./served.ts";

/** Paths that are no objects. */
const PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version"];

interface Verdict {
  readonly allowed: boolean;
  readonly reason: string;
}
const yes = (who: Principal): Verdict => ({
  allowed: true,
  reason: who.kind === "operator" ? "this is the operator" : `this is a ${who.kind}`,
});
const no = (reason: string): Verdict => ({ allowed: false, reason });

export function reviewRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const all = (): readonly Served[] => served(deps.control.kinds());
  const answer = answerer(app);
  answer(`${AUTHORIZATION}/v1/selfsubjectaccessreviews`, (spec, who) => ({ status: access(spec, all(), who) }));
  answer(`${AUTHORIZATION}/v1/selfsubjectrulesreviews`, (_, who) => ({
    status: { resourceRules: rules(all(), who), nonResourceRules: [{ verbs: ["get"], nonResourceURLs: PATHS }], incomplete: false },
  }));
  answer(`${AUTHENTICATION}/v1/selfsubjectreviews`, (_, who) => ({
    status: { userInfo: { username: `beige:${principalName(who)}`, groups: ["system:authenticated", `beige:${who.kind}s`] } },
  }));
}

const answerer =
  (app: FastifyInstance) =>
  (path: string, decide: (spec: Unknowns, who: Principal) => object): void =>
    route(app, `POST /apis/${path}`, ({ request, reply }: Exchange) => {
      const { apiVersion, kind, spec } = bodyOf(request);
      reply.code(201);
      const given = spec === undefined || spec === null ? {} : record(spec, "spec");
      return { apiVersion, kind, metadata: { creationTimestamp: null }, spec: given, ...decide(given, byOf(request.raw).principal) };
    });

function access(spec: Unknowns, all: readonly Served[], who: Principal): Verdict {
  if (spec["nonResourceAttributes"] !== undefined) return pathAccess(record(spec["nonResourceAttributes"], "nonResourceAttributes"), who);
  if (spec["resourceAttributes"] === undefined) throw badRequest("spec needs resourceAttributes or nonResourceAttributes");
  const asked = record(spec["resourceAttributes"], "resourceAttributes");
  const said = (key: string): string => optionalText(asked, key, 256) ?? "";
  const action = { group: said("group"), resource: said("resource"), subresource: said("subresource"), verb: said("verb") };
  const [namespace, name] = [said("namespace"), said("name")];
  return may(all, name === "" ? action : { ...action, agent: nsName(namespace === "" ? DEFAULT_NAMESPACE : namespace, name) }, who);
}

function pathAccess(asked: Unknowns, who: Principal): Verdict {
  const path = optionalText(asked, "path") ?? "";
  const there = PATHS.some((each) => (each.endsWith("/*") ? path.startsWith(each.slice(0, -1)) : path === each));
  if (!there) return no("this path is not served");
  return (optionalText(asked, "verb") ?? "").toLowerCase() === "get" ? yes(who) : no("this path can only be read");
}

interface Action {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly verb: string;
  /** Where one object is asked about. */
  readonly agent?: string;
}

/** Every verb of a resource, for `*`; deleting a whole collection at once is not among them, here or there. */
const EVERY = ["create", "delete", "get", "list", "patch", "update", "watch"];

export function may(all: readonly Served[], action: Action, who: Principal = { kind: "operator" }): Verdict {
  const { group, resource, subresource, verb } = action;
  const named = all.filter((each) => (resource === "*" || each.plural === resource) && (group === "*" || each.group === group));
  if (named.length === 0) return no("beige does not serve this kind");
  const wanted = verb === "*" ? EVERY : [verb];
  const offered = named.map((each) =>
    subresource === "" ? each.verbs : (each.subresources.find((sub) => sub.name === subresource)?.verbs ?? []),
  );
  if (offered.every((verbs) => wanted.every((each) => verbs.includes(each))))
    return wanted.every((each) => roleAllows(who, { ...action, verb: each })) ? yes(who) : no(`a ${who.kind} may not`);
  const whole = subresource === "" ? resource : `${resource}/${subresource}`;
  return no(verb === "*" ? `not every verb is offered for ${whole}` : `${verb} is not offered for ${whole}`);
}

function rules(all: readonly Served[], who: Principal): readonly object[] {
  // Of a caller each rule names its agents; their namespaces it cannot say.
  const agents = who.kind === "caller" ? who.agents : [];
  const resourceNames =
    agents.length === 0 || agents.includes("*") ? {} : { resourceNames: agents.map((agent) => agent.split(".").at(-1)) };
  const rule = (each: Served, subresource: string, verbs: readonly string[]): readonly object[] => {
    const asked = { resource: each.plural, subresource, ...(agents[0] !== undefined && { agent: agents[0] }) };
    const allowed = verbs.filter((verb) => roleAllows(who, { ...asked, verb }));
    const resource = subresource === "" ? each.plural : `${each.plural}/${subresource}`;
    const names = each.plural === "pods" ? resourceNames : {};
    return allowed.length === 0 ? [] : [{ verbs: allowed, apiGroups: [each.group], resources: [resource], ...names }];
  };
  return all.flatMap((each) => [...rule(each, "", each.verbs), ...each.subresources.flatMap((sub) => rule(each, sub.name, sub.verbs))]);
}
