// The resource API in Kubernetes REST shape: get, list, watch, create, update, patch, delete.
import type { FastifyInstance } from "fastify";
import type { RouteDeps } from "./deps.ts";
import { paramsOf, queryOf, route, type Exchange } from "./exchange.ts";
import { optionalText, queryFlag } from "./fields.ts";
import { listOnWire, onWire } from "./render.ts";
import { badRequest, Refusal } from "./status.ts";
import { rowObject, table, wantsTable } from "./table.ts";
import { collectionOf, refOf, ROOT, type Collection } from "./target.ts";
import { watch } from "./watch.ts";
import { create, patch, remove, update } from "./write.ts";

export function resourceRoutes(app: FastifyInstance, deps: RouteDeps): void {
  for (const base of [`${ROOT}/:plural`, `${ROOT}/namespaces/:namespace/:plural`]) {
    route(app, `GET ${base}`, (exchange) => list(deps, exchange));
    route(app, `POST ${base}`, (exchange) => create(deps, exchange));
    route(app, `DELETE ${base}`, () => {
      throw new Refusal(
        405,
        "MethodNotAllowed",
        "deleting a whole collection is not offered",
        "delete the objects by name, or beige delete -f MANIFEST",
      );
    });
    route(app, `GET ${base}/:name`, (exchange) => get(deps, exchange));
    route(app, `PUT ${base}/:name`, (exchange) => update(deps, exchange));
    route(app, `PATCH ${base}/:name`, (exchange) => patch(deps, exchange));
    route(app, `DELETE ${base}/:name`, (exchange) => remove(deps, exchange));
    for (const method of ["GET", "PUT", "PATCH"]) route(app, `${method} ${base}/:name/*`, subresource);
  }
}

function subresource(): never {
  throw new Refusal(404, "NotFound", "subresources are not offered", "status is part of the object; the gateway alone writes it");
}

async function list(deps: RouteDeps, exchange: Exchange): Promise<unknown> {
  const { request } = exchange;
  const collection = collectionOf(deps.control, paramsOf(request));
  const query = queryOf(request);
  const selection = select(collection, query);
  if (queryFlag(query, "watch")) return watch(deps, exchange, { collection, selection });
  if ((optionalText(query, "continue") ?? "") !== "") throw badRequest("continue is not offered: lists always come whole");
  const { items, resourceVersion } = deps.control.list(collection.info.kind, selection);
  if (!wantsTable(request.headers.accept)) return listOnWire(collection.info, items, resourceVersion);
  return table(collection.info, items, {
    head: true,
    resourceVersion,
    now: deps.clock.now(),
    rowObject: rowObject(optionalText(query, "includeObject", 20)),
  });
}

function select(
  collection: Collection,
  query: ReturnType<typeof queryOf>,
): { namespace?: string; labelSelector?: string; fieldSelector?: string } {
  const labelSelector = optionalText(query, "labelSelector", 8192);
  const fieldSelector = optionalText(query, "fieldSelector", 8192);
  return {
    ...(collection.namespace !== undefined && { namespace: collection.namespace }),
    ...(labelSelector !== undefined && labelSelector !== "" && { labelSelector }),
    ...(fieldSelector !== undefined && fieldSelector !== "" && { fieldSelector }),
  };
}

async function get(deps: RouteDeps, exchange: Exchange): Promise<unknown> {
  const { request } = exchange;
  const params = paramsOf(request);
  const ref = refOf(deps.control, params);
  const query = queryOf(request);
  const collection = collectionOf(deps.control, params);
  if (queryFlag(query, "watch"))
    return watch(deps, exchange, { collection, selection: { ...select(collection, {}), fieldSelector: `metadata.name=${ref.name}` } });
  const object = deps.control.get(ref);
  if (!wantsTable(request.headers.accept)) return onWire(object);
  const form = {
    head: true,
    resourceVersion: object.metadata.resourceVersion,
    now: deps.clock.now(),
    rowObject: rowObject(optionalText(query, "includeObject", 20)),
  };
  return table(collection.info, [object], form);
}
