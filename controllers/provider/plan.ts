// Whether a provider can be used: its key, its address, and what its models suffer. Pure.
import { baseUrlOf } from "../../src/core/address.ts";
import type { Problem } from "../../src/core/errors.ts";
import type { Action, Plan, View, Want } from "../../src/core/kind.ts";
import { refName, refOf, type Provider } from "../../src/core/resource.ts";
import type { ProviderSeen } from "../../src/core/world.ts";
import type { Secret } from "../../schemas/types.ts";

export type KeyCheck =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: string; readonly message: string; readonly hint: string };

export interface ProviderFacts {
  readonly name: string;
  readonly key: KeyCheck;
  readonly seen: ProviderSeen;
}

export type ProviderAction = Action & { readonly type: "forget"; readonly name: string };

const LOOK_MS = 30_000;

export function checkProvider(provider: Provider): readonly Problem[] {
  const { spec } = provider;
  const object = refName(refOf(provider));
  const echo = spec.api === "echo";
  const problems: Problem[] = [];
  if (!echo && spec.echo !== undefined)
    problems.push({
      message: `spec.echo is a script for api 'echo', not for '${spec.api}'`,
      path: "/spec/echo",
      object,
      hint: "remove spec.echo",
    });
  if (echo && spec.baseUrl !== undefined)
    problems.push({ message: "api 'echo' is built in and has no address", path: "/spec/baseUrl", object, hint: "remove spec.baseUrl" });
  if (echo && spec.apiKey !== undefined)
    problems.push({ message: "api 'echo' is built in and takes no key", path: "/spec/apiKey", object, hint: "remove spec.apiKey" });
  const ids = spec.models.map((model) => model.id);
  ids.forEach((id, i) => {
    if (ids.indexOf(id) < i)
      problems.push({ message: `model '${id}' is there twice`, path: `/spec/models/${i}/id`, object, hint: "keep one of them" });
  });
  return problems;
}

const keyText = (ref: Secret): string => (ref.secret === undefined ? `env ${ref.env ?? ""}` : `secret ${ref.secret}`);

function planGone({ name, seen }: ProviderFacts): Plan<ProviderAction> {
  const remembered = seen.models.some((model) => model.failures > 0 || model.coolingUntil !== undefined || model.lastError !== undefined);
  const action: ProviderAction = {
    type: "forget",
    name,
    impact: "delete",
    why: "delete",
    summary: `forget the health of provider ${name}`,
    quiet: true,
  };
  return { actions: remembered ? [action] : [], ready: false, reason: "Deleting", message: "", gone: !remembered };
}

function observed(provider: Provider, { seen }: ProviderFacts, now: number): Readonly<Record<string, unknown>> {
  const { apiKey, concurrency, api } = provider.spec;
  const models = seen.models.map(({ id, coolingUntil, failures, lastError }) => ({
    id,
    state: coolingUntil !== undefined && coolingUntil > now ? "cooling" : failures > 0 ? "failing" : "healthy",
    failures,
    ...(coolingUntil !== undefined && coolingUntil > now ? { coolingUntil: new Date(coolingUntil).toISOString() } : {}),
    ...(lastError === undefined ? {} : { lastError }),
  }));
  const address = baseUrlOf(provider.spec);
  return {
    api,
    ...(address === undefined ? {} : { baseUrl: address }),
    slots: { used: seen.slots.used, waiting: seen.slots.waiting, limit: concurrency },
    models,
    ...(apiKey === undefined ? {} : { keyFrom: keyText(apiKey) }),
  };
}

export function planProvider(want: Want<Provider> | undefined, facts: ProviderFacts, view: View): Plan<ProviderAction> {
  if (want === undefined || want.deleting) return planGone(facts);
  const base = { actions: [], observed: observed(want.object, facts, view.now) };
  const { key } = facts;
  if (!key.ok) return { ...base, ready: false, reason: key.reason, message: `${key.message}; ${key.hint}`, wait: { ms: LOOK_MS } };
  const cooling = facts.seen.models.filter((model) => model.coolingUntil !== undefined && model.coolingUntil > view.now);
  if (cooling.length === 0) return { ...base, ready: true, reason: "Ready", message: "" };
  const soonest = Math.min(...cooling.map((model) => model.coolingUntil ?? view.now));
  const names = cooling.map((model) => model.id).join(", ");
  const degraded = { reason: "ModelCooling", message: `cooling down: ${names}` };
  return { ...base, ready: true, reason: "Ready", message: "", degraded, wait: { ms: Math.max(1, Math.min(LOOK_MS, soonest - view.now)) } };
}
