// The resource API in Kubernetes REST shape: get, list, watch, create, update, patch, delete.
import type { FastifyInstance } from "fastify";
import type { RouteDeps } from "./deps.ts";
import { paramsOf, queryOf, route, type Exchange } from "./exchange.ts";
import { optionalText, queryFlag } from "./fields.ts";
import { listOnWire, onWire } from "./render.ts";
import { Refusal } from "./status.ts";
import { itemOf, rowObject, table, wantsTable } from "./table.ts";
import { collectionOf, refOf, ROOT, type Collection } from "./target.ts";
import { expired, watch } from "./watch.ts";
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
    // Status is read as a part of the object; nothing else has parts.
    route(app, `GET ${base}/:name/status`, (exchange) => get(deps, exchange));
    for (const method of ["PUT", "PATCH"]) route(app, `${method} ${base}/:name/status`, statusWrite);
    for (const method of ["GET", "PUT", "PATCH"]) route(app, `${method} ${base}/:name/*`, subresource);
  }
}

function subresource(): never {
  throw new Refusal(404, "NotFound", "this subresource is not offered", "status can be read; for all else write the object itself");
}

function statusWrite(): never {
  throw new Refusal(405, "MethodNotAllowed", "status is written by the gateway alone", "write the object itself");
}

async function list(deps: RouteDeps, exchange: Exchange): Promise<unknown> {
  const { request } = exchange;
  const collection = collectionOf(deps.control, paramsOf(request));
  const query = queryOf(request);
  const selection = select(collection, query);
  if (queryFlag(query, "watch")) return watch(deps, exchange, { collection, selection });
  // Lists come whole whatever their limit, so that no token of ours is about.
  if ((optionalText(query, "continue") ?? "") !== "") throw expired();
  const { items, resourceVersion } = deps.control.list(collection.info.kind, selection);
  if (!wantsTable(request.headers.accept)) return listOnWire(collection.info, items, resourceVersion);
  const shown = items.map((object) => itemOf(collection.info, object));
  return table(collection.info.columns, shown, {
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
  return table(collection.info.columns, [itemOf(collection.info, object)], form);
}
