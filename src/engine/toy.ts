// A small kind over a world in memory, with faults on demand, for the tests of the engine.
import { BeigeError } from "../core/errors.ts";
import { defineKind, type Action, type AnyKind, type Plan, type Want } from "../core/kind.ts";
import { refOf, type Ref, type Resource } from "../core/resource.ts";
import type { World } from "../core/world.ts";
import type { AuditCall } from "../core/audit.ts";
import { seededRandom, silentLog, type ManualClock } from "./fixture.ts";

export interface BoxSpec {
  readonly size: number;
  readonly color: string;
  readonly on?: string;
  readonly tags: readonly string[];
}
export type Box = Resource<"Box", BoxSpec>;

interface Thing {
  size: number;
  color: string;
  started: boolean;
  ref: Ref;
}

export interface ToyWorld {
  readonly things: Map<string, Thing>;
  /** Effects that landed. */
  effects: number;
  looks: number;
  /** Fails the nth effect from now (1 is the next), before or after it lands. */
  fault?: { n: number; when: "before" | "after" | "hang"; error?: BeigeError };
  down: boolean;
  /** Looks never end. */
  hanging: boolean;
  /** Plans never empty. */
  restless: boolean;
  audit: "well" | "full";
  readonly rows: { readonly phase: string; readonly call: string; readonly row: AuditCall }[];
  hints?: { hint(h: { id: string; labels: Record<string, string>; action: string }): void; relist(): void; down(error: Error): void };
  readonly world: World;
}

const leaf = (type: string, impact: string, more: object = {}) => ({ type, description: "A field.", "x-beige-impact": impact, ...more });

export const boxSchema = {
  $schema: "http://json-schema.org/draft-07/schema#",
  $id: "https://beige.dev/schemas/box.json",
  title: "Box",
  description: "A thing.",
  type: "object",
  additionalProperties: false,
  required: ["apiVersion", "kind", "metadata", "spec"],
  properties: {
    apiVersion: { const: "beige.dev/v1", description: "Always beige.dev/v1." },
    kind: { const: "Box", description: "Always Box." },
    metadata: { $ref: "common.json#/definitions/Metadata" },
    spec: {
      type: "object",
      title: "BoxSpec",
      description: "What it should be.",
      additionalProperties: false,
      required: ["size"],
      properties: {
        size: leaf("integer", "update"),
        color: leaf("string", "replace", { default: "beige" }),
        on: leaf("string", "live"),
        tags: {
          type: "array",
          items: { type: "string" },
          default: [],
          description: "Words.",
          "x-beige-list": "set",
          "x-beige-impact": "live",
        },
      },
    },
  },
};

export function createToy(clock: ManualClock): ToyWorld {
  const toy: Omit<ToyWorld, "world"> & { world?: World } = {
    things: new Map(),
    effects: 0,
    looks: 0,
    down: false,
    hanging: false,
    restless: false,
    audit: "well",
    rows: [],
  };
  const noted = (phase: string) => async (call: string, row: AuditCall) => {
    if (toy.audit === "full") throw new BeigeError("unavailable", "the disk is full");
    toy.rows.push({ phase, call, row });
  };
  const world = {
    clock,
    random: seededRandom(7),
    log: silentLog,
    control: { begin: noted("begin"), end: noted("end"), denied: noted("denied"), note: noted("note") },
    sessions: { open: () => 0, end: async () => undefined },
    sandbox: {
      watch: (on: NonNullable<ToyWorld["hints"]>, signal: AbortSignal) => {
        toy.hints = on;
        return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    },
  } as unknown as World;
  return Object.assign(toy, { world });
}

interface BoxAction extends Action {
  readonly uid: string;
  readonly ref: Ref;
  readonly spec?: BoxSpec;
}

async function effect(toy: ToyWorld, land: () => void): Promise<void> {
  if (toy.down) throw new BeigeError("unavailable", "the engine does not answer");
  const { fault } = toy;
  const hit = fault !== undefined && --fault.n === 0;
  const error = fault?.error ?? new BeigeError("unavailable", "a fault");
  if (hit && fault.when === "before") throw error;
  if (hit && fault.when === "hang") await new Promise(() => undefined);
  land();
  toy.effects += 1;
  if (hit) throw error;
}

function planBox(want: Want<Box> | undefined, seen: ReadonlyMap<string, Thing>, ready: boolean): Plan<BoxAction> {
  const uid = want?.object.metadata.uid ?? "";
  const ref: Ref =
    want === undefined
      ? { kind: "Box", namespace: "", name: "" }
      : { kind: "Box", namespace: want.object.metadata.namespace, name: want.object.metadata.name };
  const act = (type: string, impact: Action["impact"], why: Action["why"], of = uid): BoxAction => ({
    type,
    impact,
    why,
    summary: `${type} box ${want === undefined ? of : ref.name}`,
    uid: of,
    ref,
    ...(want === undefined ? {} : { spec: want.object.spec }),
  });
  const strangers = [...seen.keys()].filter((key) => key !== uid).map((key) => act("remove", "delete", "delete", key));
  if (want === undefined || want.deleting) {
    const mine = want !== undefined && seen.has(uid) ? [act("remove", "delete", "delete")] : [];
    return { actions: [...strangers, ...mine], ready: false, reason: "Deleting", message: "", gone: true };
  }
  const thing = seen.get(uid);
  const actions: BoxAction[] = [...strangers];
  const { size, color } = want.object.spec;
  if (thing === undefined) actions.push(act("create", "create", "missing"), act("start", "live", "missing"));
  else if (thing.color !== color) {
    actions.push(act("remove", "replace", "spec"), act("create", "replace", "spec"), act("start", "live", "spec"));
  } else {
    if (thing.size !== size) actions.push(act("resize", "update", "drift"));
    if (!thing.started) actions.push(act("start", "live", "missing"));
  }
  const waits = ready ? {} : { wait: { on: [{ kind: "Box", namespace: ref.namespace, name: want.object.spec.on ?? "" }] } };
  const drift = thing !== undefined && thing.size !== size ? [{ path: "size", before: thing.size, after: size }] : [];
  return {
    actions,
    ready,
    reason: ready ? "Ready" : "Waiting",
    message: ready ? "" : "waits",
    drift,
    observed: { size: thing?.size ?? 0 },
    ...waits,
  };
}

const restless = (object: Box): BoxAction => ({
  type: "start",
  impact: "live",
  why: "spec",
  summary: "start again",
  uid: object.metadata.uid,
  ref: refOf(object),
});

async function actBox(toy: ToyWorld, action: BoxAction): Promise<void> {
  const { things } = toy;
  await effect(toy, () => {
    const thing = things.get(action.uid);
    if (action.type === "remove") things.delete(action.uid);
    if (action.type === "create" && action.spec !== undefined) {
      things.set(action.uid, { size: action.spec.size, color: action.spec.color, started: false, ref: action.ref });
    }
    if (action.type === "start" && thing !== undefined) thing.started = true;
    if (action.type === "resize" && thing !== undefined) thing.size = action.spec?.size ?? 0;
  });
}

export const createBoxKind = (toy: ToyWorld): AnyKind =>
  defineKind<Box, ReadonlyMap<string, Thing>, BoxAction>({
    kind: "Box",
    plural: "boxes",
    short: ["bx"],
    scope: "Namespaced",
    schema: boxSchema,
    columns: [],
    finalizer: "beige.dev/box",
    needs: (box) =>
      box.spec.on === undefined ? [] : [{ ref: { kind: "Box", namespace: box.metadata.namespace, name: box.spec.on }, path: "/spec/on" }],
    check: (box) => (box.spec.size > 100 ? [{ message: "box is larger than 100", path: "/spec/size" }] : []),
    names: async () => [...toy.things.values()].map((thing) => thing.ref),
    observe: async (_w, ref) => {
      if (toy.hanging) await new Promise(() => undefined);
      toy.looks += 1;
      if (toy.down) throw new BeigeError("unavailable", "the engine does not answer");
      return new Map(
        [...toy.things].filter(([, t]) => t.ref.name === ref.name && t.ref.namespace === ref.namespace).map(([k, t]) => [k, { ...t }]),
      );
    },
    plan(want, seen, view) {
      const on = want?.object.spec.on;
      const other = on === undefined ? undefined : view.get({ kind: "Box", namespace: want?.object.metadata.namespace ?? "", name: on });
      const ready = on === undefined || other?.status?.conditions.some((c) => c.type === "Ready" && c.status === "True") === true;
      const plan = planBox(want, seen, ready);
      return toy.restless && want !== undefined ? { ...plan, actions: [...plan.actions, restless(want.object)] } : plan;
    },
    act: (_w, action) => actBox(toy, action),
  });
