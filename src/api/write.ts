// The writing verbs of the resource API: they name the target and the writer, the engine does the rest.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { WriteRequest } from "../core/control.ts";
import { APPLY_PATCH, JSON_PATCH, mediaType } from "./body.ts";
import type { RouteDeps } from "./deps.ts";
import { bodyOf, byOf, paramsOf, queryOf, type Exchange } from "./exchange.ts";
import { optionalText, queryFlag, record, type Unknowns } from "./fields.ts";
import { onWire } from "./render.ts";
import { badRequest } from "./status.ts";
import { screened, type Validation } from "./strict.ts";
import { collectionOf, GROUP, newRef, refOf, sameTarget } from "./target.ts";

export async function create(deps: RouteDeps, { request, reply }: Exchange): Promise<unknown> {
  const collection = collectionOf(deps.control, paramsOf(request));
  const body = bodyOf(request);
  const ref = newRef(collection, body);
  sameTarget(body, ref);
  return write(deps, reply, { by: byOf(request.raw), op: "create", ref, body, ...options(request) });
}

export async function update(deps: RouteDeps, { request, reply }: Exchange): Promise<unknown> {
  const ref = refOf(deps.control, paramsOf(request));
  const body = bodyOf(request);
  sameTarget(body, ref);
  return write(deps, reply, { by: byOf(request.raw), op: "update", ref, body, ...options(request) });
}

export async function patch(deps: RouteDeps, { request, reply }: Exchange): Promise<unknown> {
  const ref = refOf(deps.control, paramsOf(request));
  const type = mediaType(request);
  if (type === JSON_PATCH) {
    const { validation: _unseen, ...given } = options(request);
    // The engine checks the object that comes of it.
    return write(deps, reply, { by: byOf(request.raw), op: "json", ref, body: request.body, ...given });
  }
  const body = bodyOf(request);
  sameTarget(body, ref);
  const apply = type === APPLY_PATCH;
  if (apply && (optionalText(queryOf(request), "fieldManager", 128) ?? "") === "")
    throw badRequest("an apply patch needs a fieldManager", "add ?fieldManager=NAME");
  return write(deps, reply, { by: byOf(request.raw), op: apply ? "apply" : "merge", ref, body, ...options(request) });
}

async function write(
  deps: RouteDeps,
  reply: FastifyReply,
  { validation, ...request }: WriteRequest & { readonly validation?: Validation },
): Promise<object> {
  const info = deps.control.kinds().find((kind) => kind.kind === request.ref.kind);
  const seen = info === undefined ? { body: request.body, warnings: [] } : screened(info, request.body, validation);
  const { object, created, warnings } = await deps.control.write({ ...request, body: seen.body });
  const all = [...seen.warnings, ...warnings];
  // Node joins several values into several header lines.
  if (all.length > 0) reply.header("warning", all.slice(0, 20).map(warningHeader));
  reply.code(created ? 201 : 200);
  return onWire(object);
}

/** RFC 7234 warning text: no quote, control or non-ASCII character gets into a header. */
const warningHeader = (text: string): string =>
  `299 - "${text
    .replaceAll(/[^\x20-\x7e]/g, "?")
    .slice(0, 500)
    .replaceAll(/["\\]/g, String.raw`\$&`)}"`;

function options(request: FastifyRequest): Pick<WriteRequest, "manager" | "force" | "dryRun"> & { readonly validation?: Validation } {
  const query = queryOf(request);
  const validation = optionalText(query, "fieldValidation", 20) ?? "";
  if (validation !== "" && validation !== "Strict" && validation !== "Warn" && validation !== "Ignore")
    throw badRequest("fieldValidation must be Strict, Warn or Ignore");
  return {
    manager: manager(request),
    force: queryFlag(query, "force"),
    dryRun: dryRun(optionalText(query, "dryRun", 20)),
    ...(validation !== "" && { validation }),
  };
}

/** As Kubernetes does: the program's own name when it says none. */
function manager(request: FastifyRequest): string {
  const said = optionalText(queryOf(request), "fieldManager", 128) ?? "";
  if (said !== "" && !/^[\x21-\x7e]+$/.test(said)) throw badRequest("fieldManager must be printable, without spaces");
  if (said !== "") return said;
  return /^[\w.-]{1,64}/.exec(request.headers["user-agent"] ?? "")?.[0] ?? "unknown";
}

function dryRun(value: string | undefined): boolean {
  if (value === undefined || value === "") return false;
  if (value === "All") return true;
  throw badRequest("dryRun must be All");
}

export async function remove(deps: RouteDeps, { request }: Exchange): Promise<object> {
  const params = paramsOf(request);
  const ref = refOf(deps.control, params);
  const query = queryOf(request);
  const body = request.body === undefined || request.body === null ? {} : bodyOf(request);
  const object = await deps.control.delete(ref, {
    by: byOf(request.raw),
    dryRun: dryRun(optionalText(query, "dryRun", 20)) || bodyDryRun(body),
    force: queryFlag(query, "force"),
    ...preconditions(body),
  });
  if ((object.metadata.finalizers ?? []).length > 0) return onWire(object);
  const details = { name: ref.name, group: GROUP, kind: params.plural, uid: object.metadata.uid };
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details, code: 200 };
}

function bodyDryRun(body: Unknowns): boolean {
  if (body.dryRun === undefined) return false;
  if (!Array.isArray(body.dryRun) || !body.dryRun.every((v) => v === "All")) throw badRequest('dryRun must be ["All"]');
  return body.dryRun.length > 0;
}

function preconditions(body: Unknowns): { uid?: string; resourceVersion?: string } {
  if (body.preconditions === undefined || body.preconditions === null) return {};
  const given = record(body.preconditions, "preconditions");
  const uid = optionalText(given, "uid", 64);
  const resourceVersion = optionalText(given, "resourceVersion", 40);
  return { ...(uid !== undefined && { uid }), ...(resourceVersion !== undefined && { resourceVersion }) };
}
