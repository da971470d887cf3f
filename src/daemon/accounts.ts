// The ledger among the objects whose budgets it keeps, what is told of them, and what is counted for whoever watches.
import { createMetrics } from "../adapters/metrics.ts";
import { systemClock } from "../adapters/clock.ts";
import type { Keys } from "../core/keys.ts";
import type { Scope } from "../core/ledger.ts";
import type { Levels, Metrics } from "../core/metrics.ts";
import { DEFAULT_NAMESPACE, nsName, type Agent, type Provider, type Ref } from "../core/resource.ts";
import type { Log } from "../core/world.ts";
import type { EventReason } from "../engine/events.ts";
import type { Store } from "../engine/store.ts";
import { createLedger, type BudgetNotice } from "../gateway/ledger.ts";
import type { Limiter } from "../gateway/limiter.ts";

/** What may have a budget, as an object; keys are none. */
function refOf({ kind, name }: Scope): Ref | undefined {
  if (kind === "key") return undefined;
  if (kind === "provider") return { kind: "Provider", namespace: "", name };
  const dot = name.indexOf(".");
  return { kind: "Agent", namespace: dot < 0 ? DEFAULT_NAMESPACE : name.slice(0, dot), name: name.slice(dot + 1) };
}

interface LedgerParts {
  readonly store: Store;
  readonly log: Log;
  readonly keys: Pick<Keys, "list" | "budget">;
}

export function ledgerOf({ store, log, keys }: LedgerParts): ReturnType<typeof createLedger> {
  const objectOf = (scope: Scope) => {
    const ref = refOf(scope);
    return ref === undefined ? undefined : store.objects.get(ref);
  };
  return createLedger({
    book: store.ledger,
    clock: systemClock,
    budgetOf: (scope) => (scope.kind === "key" ? keys.budget(scope.name) : (objectOf(scope) as Agent | Provider | undefined)?.spec.budget),
    scopes: () => [
      ...store.objects.list("Agent").map(({ metadata }) => ({ kind: "agent", name: nsName(metadata.namespace, metadata.name) }) as const),
      ...store.objects.list("Provider").map(({ metadata }) => ({ kind: "provider", name: metadata.name }) as const),
      ...keys.list().map(({ name }) => ({ kind: "key", name }) as const),
    ],
    tell: (notice) => tell(store, log, { notice, ref: refOf(notice.scope) }),
  });
}

/** An event on the object, and a line in the log. A store that cannot be written must not refuse what the budget allows. */
function tell(store: Store, log: Log, { notice, ref }: { readonly notice: BudgetNotice; readonly ref: Ref | undefined }): void {
  const { scope, reason, message } = notice;
  log.warn(reason === "BudgetLow" ? "a budget is nearly used up" : "a budget is used up", { [scope.kind]: scope.name, reason: message });
  if (ref !== undefined) warn(store, log, { ref, reason, message });
}

interface Warning {
  readonly ref: Ref;
  readonly reason: Extract<EventReason, "BudgetLow" | "BudgetUsedUp" | "OutOfMemory">;
  readonly message: string;
}

function warn(store: Store, log: Log, { ref, reason, message }: Warning): void {
  const object = store.objects.get(ref);
  if (object === undefined) return;
  try {
    store.events.record({ ref, uid: object.metadata.uid, type: "Warning", reason, message });
  } catch (error) {
    log.error("an event is lost", { error: String(error) });
  }
}

/** Besides the audit row of the command: whoever looks at the agent sees that its limit is too low, and how often. */
export function outOfMemory(store: Store, log: Log, agent: string): void {
  const ref = refOf({ kind: "agent", name: agent });
  const limit = ref === undefined ? undefined : (store.objects.get(ref) as Agent | undefined)?.spec.sandbox.resources.memory;
  const message = `a command ran out of memory: spec.sandbox.resources.memory is ${limit ?? "its limit"}`;
  if (ref !== undefined) warn(store, log, { ref, reason: "OutOfMemory", message });
}

export interface Watched {
  readonly limiter: Pick<Limiter, "seen">;
  readonly sessions: () => Levels["sessions"];
}

/** What is watched is given late: the counters are made before it. */
export function metricsOf(store: Store): { readonly metrics: Metrics; readonly watch: (parts: Watched) => void } {
  let watched: Watched | undefined;
  const levels = (): Levels => {
    const now = watched;
    if (now === undefined) return { slots: [], sessions: { open: 0, busy: 0 } };
    const slots = store.objects.list("Provider").map(({ metadata: { name } }) => ({ provider: name, ...now.limiter.seen(name) }));
    return { slots, sessions: now.sessions() };
  };
  return {
    metrics: createMetrics({ levels }),
    watch: (parts) => {
      watched = parts;
    },
  };
}
