// What a client may do here, as it may ask about itself: it got past the gate, so it is the operator, within what is served.
import type { FastifyInstance } from "fastify";
import type { RouteDeps } from "../deps.ts";
import { bodyOf, route, type Exchange } from "../exchange.ts";
import { optionalText, record, type Unknowns } from "../fields.ts";
import { badRequest } from "../status.ts";
import { AUTHENTICATION, AUTHORIZATION, served, type Served } from "./served.ts";

/** Paths that are no objects. */
const PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version"];

interface Verdict {
  readonly allowed: boolean;
  readonly reason: string;
}
const yes: Verdict = { allowed: true, reason: "this is the operator's token" };
const no = (reason: string): Verdict => ({ allowed: false, reason });

export function reviewRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const all = (): readonly Served[] => served(deps.control.kinds());
  answer(app, `${AUTHORIZATION}/v1/selfsubjectaccessreviews`, (spec) => ({ status: access(spec, all()) }));
  answer(app, `${AUTHORIZATION}/v1/selfsubjectrulesreviews`, () => ({
    status: { resourceRules: rules(all()), nonResourceRules: [{ verbs: ["get"], nonResourceURLs: PATHS }], incomplete: false },
  }));
  answer(app, `${AUTHENTICATION}/v1/selfsubjectreviews`, () => ({
    status: { userInfo: { username: "beige:operator", groups: ["system:authenticated", "beige:operators"] } },
  }));
}

function answer(app: FastifyInstance, path: string, decide: (spec: Unknowns) => object): void {
  route(app, `POST /apis/${path}`, ({ request, reply }: Exchange) => {
    const { apiVersion, kind, spec } = bodyOf(request);
    reply.code(201);
    const given = spec === undefined || spec === null ? {} : record(spec, "spec");
    return { apiVersion, kind, metadata: { creationTimestamp: null }, spec: given, ...decide(given) };
  });
}

function access(spec: Unknowns, all: readonly Served[]): Verdict {
  if (spec["nonResourceAttributes"] !== undefined) return pathAccess(record(spec["nonResourceAttributes"], "nonResourceAttributes"));
  if (spec["resourceAttributes"] === undefined) throw badRequest("spec needs resourceAttributes or nonResourceAttributes");
  const asked = record(spec["resourceAttributes"], "resourceAttributes");
  const said = (key: string): string => optionalText(asked, key, 256) ?? "";
  return may(all, { group: said("group"), resource: said("resource"), subresource: said("subresource"), verb: said("verb") });
}

function pathAccess(asked: Unknowns): Verdict {
  const path = optionalText(asked, "path") ?? "";
  const there = PATHS.some((each) => (each.endsWith("/*") ? path.startsWith(each.slice(0, -1)) : path === each));
  if (!there) return no("this path is not served");
  return (optionalText(asked, "verb") ?? "").toLowerCase() === "get" ? yes : no("this path can only be read");
}

interface Action {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly verb: string;
}

/** Every verb of a resource, for `*`; deleting a whole collection at once is not among them, here or there. */
const EVERY = ["create", "delete", "get", "list", "patch", "update", "watch"];

export function may(all: readonly Served[], { group, resource, subresource, verb }: Action): Verdict {
  const named = all.filter((each) => (resource === "*" || each.plural === resource) && (group === "*" || each.group === group));
  if (named.length === 0) return no("beige does not serve this kind");
  const wanted = verb === "*" ? EVERY : [verb];
  const offered = named.map((each) =>
    subresource === "" ? each.verbs : (each.subresources.find((sub) => sub.name === subresource)?.verbs ?? []),
  );
  if (offered.every((verbs) => wanted.every((each) => verbs.includes(each)))) return yes;
  const whole = subresource === "" ? resource : `${resource}/${subresource}`;
  return no(verb === "*" ? `not every verb is offered for ${whole}` : `${verb} is not offered for ${whole}`);
}

function rules(all: readonly Served[]): readonly object[] {
  return all.flatMap((each) => [
    { verbs: each.verbs, apiGroups: [each.group], resources: [each.plural] },
    ...each.subresources.map((sub) => ({ verbs: sub.verbs, apiGroups: [each.group], resources: [`${each.plural}/${sub.name}`] })),
  ]);
}
