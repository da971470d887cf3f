// POST /api/apply: raw manifests in, a stream of problems, plan, progress and end out.
import type { FastifyInstance } from "fastify";
import type { ApplyEvent, ApplyRequest, Basis, ManifestFile, PlanBasis } from "../core/control.ts";
import { ERRORS } from "../core/errors.ts";
import type { RouteDeps } from "./deps.ts";
import { byOf, route } from "./exchange.ts";
import { flag, only, optionalText, text, textMap, wholeNumber, type Unknowns } from "./fields.ts";
import { badRequest } from "./status.ts";
import { send } from "./stream.ts";

const LONG = 8 * 1024 * 1024;
const MAX_FILES = 5000;
const HOUR_MS = 3_600_000;

export function applyRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "POST /api/apply", (exchange) => {
    const asked = applyRequest(exchange.request.body);
    return send<ApplyEvent>(deps, exchange, {
      events: (signal) => deps.control.apply({ ...asked, by: byOf(exchange.request.raw) }, signal),
      line: (event) => event,
      broken: (error): ApplyEvent => ({
        type: "end",
        exit: ERRORS[error.code].exit,
        applied: 0,
        unchanged: 0,
        failed: 0,
        message: error.message,
        ...(error.hint !== undefined && { hint: error.hint }),
      }),
      type: "application/x-ndjson",
      eager: false,
      alive: "\n",
      stop: deps.stopped,
    });
  });
}

const KEYS = ["files", "set", "dryRun", "forceConflicts", "prune", "wait", "timeoutMs"] as const;

/** Exported for tests: everything but `files` has a default. */
export function applyRequest(raw: unknown): ApplyRequest {
  const body = only(raw, [...KEYS, "maxDeletes", "allowEmpty", "detail", "expect"]);
  if (!Array.isArray(body.files)) throw badRequest("files must be a list of manifests");
  if (body.files.length > MAX_FILES) throw badRequest(`more than ${MAX_FILES} files in one apply`);
  const set = optionalText(body, "set", 63) ?? "default";
  if (!/^[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$/.test(set)) throw badRequest(`set ${JSON.stringify(set)} is not a name`);
  return {
    files: body.files.map(manifest),
    set,
    dryRun: flag(body, "dryRun", false),
    forceConflicts: flag(body, "forceConflicts", false),
    prune: flag(body, "prune", false),
    wait: flag(body, "wait", true),
    timeoutMs: wholeNumber(body, "timeoutMs", { min: 0, max: 24 * HOUR_MS, absent: 300_000 }),
    allowEmpty: flag(body, "allowEmpty", false),
    detail: flag(body, "detail", false),
    ...maxDeletes(body),
    ...(body.expect !== undefined && body.expect !== null && { expect: basis(body.expect) }),
  };
}

function maxDeletes(body: Unknowns): Pick<ApplyRequest, "maxDeletes"> {
  if (body.maxDeletes === undefined || body.maxDeletes === null) return {};
  if (typeof body.maxDeletes !== "string") return { maxDeletes: wholeNumber(body, "maxDeletes", { min: 0, max: 1_000_000, absent: 0 }) };
  if (!/^\d{1,3}%$/.test(body.maxDeletes)) throw badRequest("maxDeletes must be a number, or percent such as 30%");
  return { maxDeletes: body.maxDeletes };
}

const hash = (from: Unknowns, key: string): string => optionalText(from, key, 64) ?? "";

function basis(raw: unknown): PlanBasis {
  const given = only(raw, ["store", "resourceVersion", "objects"], "expect");
  if (!Array.isArray(given.objects)) throw badRequest("expect.objects must be a list");
  return {
    store: text(given, "store", 64),
    resourceVersion: optionalText(given, "resourceVersion", 40) ?? "",
    objects: given.objects.map((each, i): Basis => {
      const where = `expect.objects[${i}]`;
      const one = only(each, ["ref", "uid", "stored", "wanted", "world"], where);
      const ref = only(one.ref, ["kind", "namespace", "name"], `${where}.ref`);
      return {
        ref: { kind: text(ref, "kind", 64), namespace: optionalText(ref, "namespace", 64) ?? "", name: text(ref, "name", 64) },
        stored: hash(one, "stored"),
        wanted: hash(one, "wanted"),
        world: hash(one, "world"),
      };
    }),
  };
}

function manifest(raw: unknown, index: number): ManifestFile {
  const body = only(raw, ["name", "folder", "text", "vars", "files"], `files[${index}]`);
  const folder = optionalText(body, "folder");
  if (folder !== undefined && (!folder.startsWith("/") || folder.includes("\0")))
    throw badRequest(`files[${index}].folder must be absolute`);
  return {
    name: text(body, "name"),
    text: optionalText(body, "text", LONG) ?? "",
    vars: textMap(body, "vars"),
    files: textMap(body, "files"),
    ...(folder !== undefined && { folder }),
  };
}
