import fc from "fast-check";
import { expect, test } from "vitest";
import type { Plan } from "../core/kind.ts";
import type { Resource } from "../core/resource.ts";
import { newObject } from "./object.ts";
import { findingOf, nextStatus } from "./status.ts";

const ref = { kind: "Box", namespace: "default", name: "a" };
const fresh: Resource = newObject(ref, { spec: {}, managedFields: [] }, { uid: "u", now: 0 });
const action = { type: "t", impact: "create", why: "missing", summary: "do it" } as const;

const plans: fc.Arbitrary<Plan> = fc.record(
  {
    actions: fc.constantFrom<Plan["actions"]>([], [action]),
    ready: fc.constantFrom<Plan["ready"]>(true, false, "unknown"),
    reason: fc.constantFrom("Ready", "Waiting", "Missing"),
    message: fc.constantFrom("", "because", "x".repeat(5_000)),
    wait: fc.constantFrom<NonNullable<Plan["wait"]>>({ ms: 1_000 }, { ms: 60_000 }, { on: [ref] }),
    drift: fc.constantFrom<NonNullable<Plan["drift"]>>([], [{ path: "size", before: 1, after: 2 }]),
    degraded: fc.constant({ reason: "Bad", message: "worse" }),
    suspended: fc.boolean(),
    observed: fc.constant({ size: 1 }),
  },
  { requiredKeys: ["actions", "ready", "reason", "message"] },
);
const after = (object: Resource, plan: Plan, now: number): Resource => ({ ...object, status: nextStatus(object, findingOf(plan), now) });

test("the same plan again changes nothing of the status, whenever it comes", () => {
  fc.assert(
    fc.property(fc.array(plans, { maxLength: 5 }), plans, (before, plan) => {
      const object = before.reduce((o, p, i) => after(o, p, i * 1_000), fresh);
      const once = after(object, plan, 50_000);
      expect(after(once, plan, 90_000)).toEqual(once);
    }),
  );
});

test("a condition's time moves exactly when its status does", () => {
  fc.assert(
    fc.property(plans, plans, (first, second) => {
      const a = after(fresh, first, 1_000);
      const b = after(a, second, 2_000);
      for (const now of b.status?.conditions ?? []) {
        const old = a.status?.conditions.find((c) => c.type === now.type);
        expect(now.lastTransitionTime === old?.lastTransitionTime).toBe(old?.status === now.status);
      }
    }),
  );
});

test("each type is there once, Ready is always there, messages are bounded, and a condition that was True never just vanishes", () => {
  fc.assert(
    fc.property(fc.array(plans, { minLength: 1, maxLength: 6 }), (history) => {
      let object = fresh;
      for (const [i, plan] of history.entries()) {
        const before = object.status?.conditions.map((c) => c.type) ?? [];
        object = after(object, plan, i);
        const types = object.status?.conditions.map((c) => c.type) ?? [];
        expect(new Set(types).size).toBe(types.length);
        expect(types).toEqual(expect.arrayContaining(["Ready", "Progressing", ...before]));
        expect(object.status?.conditions.every((c) => c.message.length <= 2_000)).toBe(true);
      }
    }),
  );
});

test("an object is never called Ready by a plan that still has something to do, unless it was before", () => {
  const busy: Plan = { actions: [action], ready: true, reason: "Ready", message: "" };
  const status = (o: Resource) => o.status?.conditions.find((c) => c.type === "Ready")?.status;
  expect(status(after(fresh, busy, 0))).toBe("False");
  const ready = after(fresh, { ...busy, actions: [] }, 0);
  expect(status(ready)).toBe("True");
  expect(status(after(ready, busy, 1))).toBe("True");
});
