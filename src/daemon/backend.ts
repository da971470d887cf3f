// BEIGE_SANDBOX: where a new agent goes whose manifest names no backend. It is the default of the schema, so what is stored stays.
import { BeigeError } from "../core/errors.ts";
import type { AnyKind } from "../core/kind.ts";
import { copy } from "../core/normalise.ts";
import { isObject } from "../core/schema.ts";

type Environment = Readonly<Record<string, string | undefined>>;
const BACKENDS = ["docker", "bwrap"] as const;

/** Throws `invalid` for what does not isolate. */
export function defaultBackend(env: Environment): (typeof BACKENDS)[number] {
  const said = env["BEIGE_SANDBOX"] || "docker";
  const found = BACKENDS.find((one) => one === said);
  if (found !== undefined) return found;
  throw new BeigeError("invalid", `BEIGE_SANDBOX is ${said}, and it can be ${BACKENDS.join(" or ")}: no agent runs without a sandbox`, {
    hint: `export BEIGE_SANDBOX=${BACKENDS[0]}`,
  });
}

/** The schema with another default at a path of members. */
function withDefault(schema: object, path: readonly string[], value: string): object {
  const whole = copy(schema);
  let at: unknown = whole;
  for (const key of path) at = isObject(at) && isObject(at["properties"]) ? at["properties"][key] : undefined;
  if (!isObject(at)) throw new BeigeError("internal", `the schema has no ${path.join(".")}`);
  Object.assign(at, { default: value });
  return whole;
}

/** The kinds as this gateway has them. */
export function kindsFor(kinds: readonly AnyKind[], env: Environment): readonly AnyKind[] {
  const backend = defaultBackend(env);
  if (backend === BACKENDS[0]) return kinds;
  return kinds.map((kind) =>
    kind.kind === "Agent" ? { ...kind, schema: withDefault(kind.schema, ["spec", "sandbox", "backend"], backend) } : kind,
  );
}
