// OpenAPI as kubectl reads it: version 2 in protocol buffers, version 3 in JSON, both from the kinds' schemas.
import { createHash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import type { KindInfo } from "../../core/control.ts";
import type { RouteDeps } from "../deps.ts";
import { route } from "../exchange.ts";
import { Refusal } from "../status.ts";
import { META, metadata, PATCH_QUERY, pathOf, describedKinds, type Definition, type Described } from "./definitions.ts";
import { message } from "./wire.ts";

const V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

export function openapiRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const documents = once(() => build(deps.control.kinds(), deps.version));
  route(app, "GET /openapi/v2", ({ request, reply }) => {
    const accept = request.headers.accept ?? "";
    if (!accept.includes("spec.v2@v1.0+protobuf"))
      throw new Refusal(406, "NotAcceptable", "OpenAPI v2 is served in protocol buffers only", "use /openapi/v3 for JSON");
    reply.type(V2_TYPE);
    return reply.send(Buffer.from(documents().v2));
  });
  route(app, "GET /openapi/v3", () => ({
    paths: Object.fromEntries(
      [...documents().v3].map(([path, { hash }]) => [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }]),
    ),
  }));
  route(app, "GET /openapi/v3/*", ({ request, reply }) => {
    const path = (request.params as { readonly "*"?: string })["*"] ?? "";
    const found = documents().v3.get(path);
    if (found === undefined) throw new Refusal(404, "NotFound", "there is no such OpenAPI document", "GET /openapi/v3 lists them");
    reply.type("application/json");
    return reply.send(found.json);
  });
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

interface Documents {
  readonly v2: Uint8Array;
  /** By path below /openapi/v3. The hash is part of the address: clients keep what they once read. */
  readonly v3: ReadonlyMap<string, { readonly json: string; readonly hash: string }>;
}

function build(kinds: readonly KindInfo[], version: string): Documents {
  const all = describedKinds(kinds);
  const groups = Map.groupBy(all, (each) => (each.gvk.group === "" ? "api/v1" : `apis/${each.gvk.group}/${each.gvk.version}`));
  const v3 = [...groups].map(([path, members]) => {
    const json = JSON.stringify(document3(members, version));
    return [path, { json, hash: createHash("sha256").update(json).digest("hex").toUpperCase() }] as const;
  });
  return { v2: document2(all, version), v3: new Map(v3) };
}

function document3(kinds: readonly Described[], version: string): object {
  const schemas = { [META]: schema3(metadata), ...Object.fromEntries(kinds.map((each) => [each.name, schema3(each.definition)])) };
  const parameters = PATCH_QUERY.map((name) => ({ name, in: "query", schema: { type: "string" } }));
  const paths = kinds.map((each) => [
    pathOf(each),
    {
      patch: {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": each.gvk,
        parameters,
        responses: { 200: { description: "OK" } },
      },
    },
  ]);
  return { openapi: "3.0.0", info: { title: "beige", version }, paths: Object.fromEntries(paths), components: { schemas } };
}

function schema3(from: Definition): object {
  const { ref, open, gvk, properties, items, additionalProperties, ...rest } = from;
  return {
    ...rest,
    ...(ref !== undefined && { allOf: [{ $ref: `#/components/schemas/${ref}` }], default: {} }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, schema3(field)])),
    }),
    ...(items !== undefined && { items: schema3(items) }),
    ...(additionalProperties !== undefined && { additionalProperties: schema3(additionalProperties) }),
    ...(open === true && { "x-kubernetes-preserve-unknown-fields": true }),
    ...(gvk !== undefined && { "x-kubernetes-group-version-kind": [gvk] }),
  };
}

/** An extension: a name and its value as YAML, which JSON is. */
const extension = (name: string, value: unknown): Uint8Array => message([1, name], [2, message([2, JSON.stringify(value)])]);
const named = (name: string, value: Uint8Array): Uint8Array => message([1, name], [2, value]);

function document2(kinds: readonly Described[], version: string): Uint8Array {
  const paths = kinds.map((each) => [2, named(pathOf(each), message([8, operation2(each)]))] as const);
  const definitions = [
    [1, named(META, schema2(metadata))] as const,
    ...kinds.map((each) => [1, named(each.name, schema2(each.definition))] as const),
  ];
  const info = message([1, "beige"], [2, version]);
  return message([1, "2.0"], [2, info], [8, message(...paths)], [9, message(...definitions)]);
}

/** The PATCH of a kind: its query parameters tell kubectl of dry runs and of strict validation. */
function operation2({ gvk }: Described): Uint8Array {
  const query = (name: string): Uint8Array => message([1, message([2, message([3, message([2, "query"], [3, ""], [4, name])])])]);
  return message(...PATCH_QUERY.map((name) => [8, query(name)] as const), [13, extension("x-kubernetes-group-version-kind", gvk)]);
}

function schema2(from: Definition): Uint8Array {
  const { ref, type, description, required, properties, items, additionalProperties, gvk, open } = from;
  const fields = Object.entries(properties ?? {}).map(([name, field]) => [1, named(name, schema2(field))] as const);
  return message(
    [1, ref === undefined ? undefined : `#/definitions/${ref}`],
    [4, description],
    ...(required ?? []).map((name) => [19, name] as const),
    [21, additionalProperties === undefined ? undefined : message([1, schema2(additionalProperties)])],
    [22, type === undefined ? undefined : message([1, type])],
    [23, items === undefined ? undefined : message([1, schema2(items)])],
    [25, fields.length === 0 ? undefined : message(...fields)],
    [31, gvk === undefined ? undefined : extension("x-kubernetes-group-version-kind", [gvk])],
    [31, open === true ? extension("x-kubernetes-preserve-unknown-fields", true) : undefined],
  );
}
