// GET /v1/models: the agents and models that the caller may name, in a shape that both families of clients read.
import type { FastifyInstance } from "fastify";
import type { Principal } from "../../core/call.ts";
import type { Provider } from "../../core/resource.ts";
import type { RouteDeps } from "../deps.ts";
import { paramsOf, route } from "../exchange.ts";
import { Refusal } from "../status.ts";
import { principalOf } from "../principal.ts";
import { agentsOf, fullName, modelsOf } from "./target.ts";

export function listRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /v1/models", (exchange) => {
    const data = namesFor(deps, principalOf(exchange)).map(([id, owner]) => entry(deps, id, owner));
    return { object: "list", data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
  });
  route(app, "GET /v1/models/*", (exchange) => {
    const wanted = paramsOf(exchange.request)["*"] ?? "";
    const found = namesFor(deps, principalOf(exchange)).find(([id]) => id === wanted);
    if (found === undefined)
      throw new Refusal(404, "NotFound", `model ${JSON.stringify(wanted.slice(0, 200))} is not known`, "GET /v1/models lists them");
    return entry(deps, ...found);
  });
}

/** Each name once, with whom it belongs to: agents first. */
function namesFor(deps: RouteDeps, principal: Principal): readonly (readonly [string, string])[] {
  const agents = agentsOf(deps.directory, principal);
  const names = new Map<string, string>();
  for (const agent of agents) names.set(fullName(agent), "beige");
  for (const model of agents.flatMap(modelsOf)) names.set(`${model.provider}/${model.id}`, model.provider);
  if (principal.kind !== "caller")
    for (const { metadata, spec } of deps.control.list("Provider", {}).items as readonly Provider[])
      for (const model of spec.models ?? []) names.set(`${metadata.name}/${model.id}`, metadata.name);
  return [...names];
}

function entry(deps: RouteDeps, id: string, owner: string) {
  const now = deps.clock.now();
  return {
    id,
    object: "model",
    created: Math.floor(now / 1000),
    owned_by: owner,
    type: "model",
    display_name: id,
    created_at: new Date(now).toISOString(),
  };
}
