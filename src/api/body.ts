// Request bodies: which content types are taken, and JSON that can do no harm.
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Limits } from "./limits.ts";
import { decodeBody, PROTOBUF, understood } from "./kube/decode.ts";
import { absent, hasInstead } from "./kube/instead.ts";
import { badRequest, Refusal } from "./status.ts";

export const MERGE_PATCH = "application/merge-patch+json";
export const APPLY_PATCH = "application/apply-patch+yaml";
export const JSON_PATCH = "application/json-patch+json";
const STRATEGIC_PATCH = "application/strategic-merge-patch+json";
const JSON_TYPE = "application/json";

const PATH_MAX = 1024;

/** The media type alone, lower case; empty when there is none. */
export const mediaType = (request: FastifyRequest): string =>
  (request.headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";

/** Takes over all content types, so that each answer is a sentence and no body is read that would be refused. */
export function acceptBodies(app: FastifyInstance, limits: Limits): void {
  app.removeAllContentTypeParsers();
  app.addHook("onRequest", async (request) => {
    if (hasBody(request)) checkType(request);
  });
  app.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: limits.bodyBytes }, async (request: FastifyRequest, bytes: Buffer) => {
    return mediaType(request) === PROTOBUF ? decodeBody(bytes) : parseBody(bytes, limits.depth);
  });
}

const hasBody = (request: FastifyRequest): boolean =>
  request.headers["transfer-encoding"] !== undefined || (request.headers["content-length"] ?? "0") !== "0";

function checkType(request: FastifyRequest): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity")
    throw unsupported("compressed request bodies are not taken", "send the body as it is");
  const type = mediaType(request);
  if (request.method === "PATCH") return checkPatch(type, request.url);
  if (type === JSON_TYPE || (type === PROTOBUF && understood(request.url))) return;
  // Older kubectl names no type now and then. Web pages can leave it out too; the gate has turned them away.
  if (type === "" && /^\/(apis|api\/v1)\//.test(request.url)) return;
  const path = request.url.split("?", 1)[0] ?? "";
  // kubectl create secret sends its body in a form that nobody here would ever read.
  if (type === PROTOBUF && path.length <= PATH_MAX && hasInstead(path)) throw absent(path);
  if (type === PROTOBUF) throw unsupported("protobuf bodies are taken of few kinds", "use apply -f, which sends JSON");
  throw unsupported(`content type ${type === "" ? "is missing" : JSON.stringify(type)}`, `send ${JSON_TYPE}`);
}

function checkPatch(type: string, url: string): void {
  if (type === MERGE_PATCH || type === APPLY_PATCH || type === JSON_PATCH) return;
  // Settings of a session are no object: their patch has one form only.
  if (type === JSON_TYPE && url.startsWith("/api/agents/")) return;
  // Namespaces are a built-in kind, of which nothing is stored whatever the patch.
  if (type === STRATEGIC_PATCH && url.startsWith("/api/v1/namespaces/")) return;
  const hint = `send ${MERGE_PATCH}, ${APPLY_PATCH} or ${JSON_PATCH}; with kubectl: patch --type=merge`;
  if (type === STRATEGIC_PATCH) throw unsupported("strategic merge patches exist for built-in Kubernetes kinds only", hint);
  throw unsupported(`content type ${type === "" ? "is missing" : JSON.stringify(type)}`, hint);
}

const unsupported = (message: string, hint: string): Refusal => new Refusal(415, "UnsupportedMediaType", message, hint);

/** Exported for tests: bytes to a value that is neither deep nor has keys that merges could trip over. Nothing for no bytes. */
export function parseBody(bytes: Uint8Array, depth: number): unknown {
  if (bytes.length === 0) return undefined;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw badRequest("the request body is not UTF-8");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw badRequest(`the request body is not JSON: ${syntax(error)}`);
  }
  inspect(value, depth);
  return value;
}

/** The engine's message quotes the body; only the position is worth showing. */
const syntax = (error: unknown): string => /at position \d+( \(line \d+ column \d+\))?/.exec(String(error))?.[0] ?? "it ends too early";

/** Copying an object costs by its keys, far more than reading them does. */
const KEYS_MAX = 10_000;

/** Level by level, since a deep body would overflow a recursive walk. */
function inspect(root: unknown, depth: number): void {
  let level: readonly unknown[] = [root];
  for (let at = 0; level.length > 0; at++) {
    if (at > depth) throw badRequest(`the request body is nested more than ${depth} levels deep`);
    const next: unknown[] = [];
    for (const value of level) if (typeof value === "object" && value !== null) children(value, next);
    level = next;
  }
}

function children(value: object, into: unknown[]): void {
  if (Array.isArray(value)) {
    for (const item of value) into.push(item);
    return;
  }
  const keys = Object.keys(value);
  if (keys.length > KEYS_MAX) throw badRequest(`an object in the request body has more than ${KEYS_MAX} keys`);
  for (const key of keys) {
    const item = (value as Readonly<Record<string, unknown>>)[key];
    if (key === "__proto__" || key === "prototype" || (key === "constructor" && typeof item === "object"))
      throw badRequest(`the key ${JSON.stringify(key)} is not allowed in a request body`);
    into.push(item);
  }
}
