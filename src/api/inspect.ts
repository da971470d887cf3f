// Reading routes of our own: describe, revisions, events, kinds and the audit log's tail.
import type { FastifyInstance } from "fastify";
import type { BudgetLine } from "../core/ledger.ts";
import { DEFAULT_NAMESPACE, nsName, type Ref } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { queryOf, route } from "./exchange.ts";
import { optionalText, queryNumber, text, type Unknowns } from "./fields.ts";
import { onWire } from "./render.ts";
import { Refusal } from "./status.ts";
import { checkName, kindNamed } from "./target.ts";

export function inspectRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api/describe", async ({ request }) => {
    const query = queryOf(request);
    const ref = reference(deps, query, text(query, "kind", 64));
    const described = await deps.control.describe(ref);
    return { ...described, object: onWire(described.object), ...budgetsOf(deps, ref) };
  });
  route(app, "GET /api/revisions", ({ request }) => {
    const query = queryOf(request);
    return { items: deps.control.revisions(reference(deps, query, text(query, "kind", 64))) };
  });
  route(app, "GET /api/events", ({ request }) => events(deps, queryOf(request)));
  route(app, "GET /api/kinds", () =>
    deps.control
      .kinds()
      .map((kind) => ({ ...kind, columns: kind.columns.map(({ name, priority, description }) => ({ name, priority, description })) })),
  );
  route(app, "GET /api/audit/tail", ({ request }) => auditTail(deps, queryOf(request)));
}

function budgetsOf(deps: RouteDeps, { kind, namespace, name }: Ref): { readonly budgets?: readonly BudgetLine[] } {
  if (deps.accounts === undefined || (kind !== "Agent" && kind !== "Provider")) return {};
  const budgets = deps.accounts.budgets(kind === "Agent" ? { kind: "agent", name: nsName(namespace, name) } : { kind: "provider", name });
  return budgets.length === 0 ? {} : { budgets };
}

function reference(deps: RouteDeps, query: Unknowns, word: string): Ref {
  const info = kindNamed(deps.control, word);
  const namespace = optionalText(query, "namespace", 64);
  return {
    kind: info.kind,
    namespace: info.namespaced ? checkName(namespace ?? DEFAULT_NAMESPACE, "namespace") : "",
    name: checkName(text(query, "name", 64), "name"),
  };
}

function events(deps: RouteDeps, query: Unknowns): object {
  const limit = queryNumber(query, "limit", { min: 1, max: 1000, absent: 200 });
  const word = optionalText(query, "kind", 64);
  if (word !== undefined) return { items: deps.control.events({ ref: reference(deps, query, word), limit }) };
  const namespace = optionalText(query, "namespace", 64);
  return { items: deps.control.events({ ...(namespace !== undefined && { namespace: checkName(namespace, "namespace") }), limit }) };
}

async function auditTail(deps: RouteDeps, query: Unknowns): Promise<object> {
  if (deps.audit === undefined)
    throw new Refusal(404, "NotFound", "this gateway does not serve its audit log", "beige audit tail reads the file");
  const filter = Object.fromEntries(
    ["agent", "tool", "decision", "session", "call", "request"].flatMap((key) => {
      const value = optionalText(query, key, 256);
      return value === undefined ? [] : [[key, value]];
    }),
  );
  return { items: await deps.audit.tail(queryNumber(query, "limit", { min: 1, max: 1000, absent: 50 }), filter) };
}
