import fc from "fast-check";
import { expect, test } from "vitest";
import type { HostWarm } from "../../schemas/types.ts";
import type { View } from "../../src/core/kind.ts";
import { normalise } from "../../src/core/normalise.ts";
import { RESTARTED_AT, type Agent } from "../../src/core/resource.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import { placeOf, WARM_MAX, type WarmSandbox } from "../../src/core/seat.ts";
import { specHash } from "./box.ts";
import type { AgentSeen } from "./seen.ts";
import { bounded, fitting, warmBox } from "./warm.ts";

const SEAT = "11111111-1111-4111-8111-111111111111";
const UID = "22222222-2222-4222-8222-222222222222";
const USER = { uid: 20_005, gid: 20_005 };
const view: View = {
  now: 0,
  store: "33333333-3333-4333-8333-333333333333",
  home: "/h",
  defaultHome: true,
  get: () => undefined,
  list: () => [],
  origin: () => undefined,
  host: { secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } },
  seatOf: (uid) => (uid === SEAT ? SEAT : undefined),
};
const ENTRY: HostWarm = { image: "beige-base:1", count: 1, env: { MODE: "a" }, resources: { tmp: "64Mi", memory: "1Gi" } };

const agentWith = (sandbox: object): Agent => {
  const whole = normalise("Agent", {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: { name: "travel", namespace: "default" },
    spec: {
      model: { provider: "p", id: "m" },
      sandbox: { image: "beige-base:1", env: { MODE: "a" }, resources: { tmp: "64Mi" }, ...sandbox },
    },
  }) as unknown as Agent;
  return { ...whole, metadata: { ...whole.metadata, uid: UID, generation: 1 } };
};
const waiting = (change: object = {}): WarmSandbox => ({
  seat: SEAT,
  user: USER,
  box: { id: "c", state: "running", imageId: "i", oomKilled: false, spec: { ...warmBox(ENTRY, SEAT, view), user: USER, ...change } },
});
const seenOf = (...warm: readonly WarmSandbox[]): AgentSeen => ({ warm, imageId: "i" }) as unknown as AgentSeen;

test("what waits is what an agent with the same words would have, without its name", () => {
  const box = warmBox(ENTRY, SEAT, view);
  expect(box).toMatchObject({ name: "beige-warm-1111111111", labels: { [LABEL.kind]: "Warm", [LABEL.uid]: SEAT }, profile: "strict" });
  expect(box.labels).not.toHaveProperty([LABEL.name]);
  expect(box.env).not.toHaveProperty("BEIGE_AGENT");
  expect(box.mounts.map(({ source }) => source)).toStrictEqual(["/h/run/1111111111", "/h/warm/1111111111/tools/bin", "/h/warm/1111111111/tools/packages", "/h/warm/1111111111/workspace"]); // prettier-ignore
  // So that a later difference is told from a change of the manifest.
  expect(box.labels[LABEL.specHash]).toBe(specHash(agentWith({ resources: { tmp: "64Mi", memory: "2Gi" } })));
});

test("one that differs in limits only is taken; one that differs in anything else is not", () => {
  expect(fitting(agentWith({}), seenOf(waiting()), view)?.seat).toBe(SEAT);
  expect(fitting(agentWith({ resources: { tmp: "64Mi", memory: "128Mi", cpus: 1, pids: 40 } }), seenOf(waiting()), view)).toBeDefined();
  expect(fitting(agentWith({ network: { mode: "allowlist", allow: ["a.example"] } }), seenOf(waiting()), view)).toBeDefined();
  for (const other of [
    { env: {} },
    { env: { MODE: "a", MORE: "b" } },
    { env: { MODE: "b" } },
    { resources: {} },
    { profile: "packages" },
    { runtime: "runsc" },
    { path: "/bin" },
    { network: { mode: "open" } },
    { image: "beige-base:2" },
    { packages: ["jq"] },
    { backend: "bwrap" },
    { mounts: [{ source: "/srv", target: "/data", readOnly: true }] },
  ])
    expect([other, fitting(agentWith(other), seenOf(waiting()), view)]).toEqual([other, undefined]);
});

test("one that was changed by hand, runs as another user, is of an older image or of an older beige is not taken", () => {
  for (const change of [
    { hardening: ["Privileged=true"] },
    { user: { uid: 0, gid: 0 } },
    { network: "open" },
    { mounts: [] },
    { labels: {} },
  ])
    expect([change, fitting(agentWith({}), seenOf(waiting(change)), view)]).toEqual([change, undefined]);
  const old = { ...waiting(), box: { ...waiting().box, imageId: "older" } };
  expect(fitting(agentWith({}), seenOf(old, waiting()), view)).toMatchObject({ box: { imageId: "i" } });
  expect(fitting(agentWith({}), { warm: [waiting()] } as unknown as AgentSeen, view)).toBeUndefined();
});

test("an agent asked to restart gets a sandbox that was made for it", () => {
  const agent = agentWith({});
  const asked = { ...agent, metadata: { ...agent.metadata, annotations: { [RESTARTED_AT]: "2026-01-01T00:00:00Z" } } };
  expect(fitting(asked as Agent, seenOf(waiting()), view)).toBeUndefined();
});

test("folders never meet: a seat's are its own whoever holds it", () => {
  const agent = { namespace: "default", name: "travel", uid: UID };
  const plain = placeOf("/h", agent, undefined);
  const seated = placeOf("/h", agent, () => SEAT);
  expect(Object.values(plain).some((path) => Object.values(seated).includes(path))).toBe(false);
  expect(seated).toStrictEqual(placeOf("/h", { namespace: "", name: "x", uid: SEAT }, () => SEAT));
});

test("no more than the bound wait in all, and the first come first", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 16 }), { maxLength: 16 }), (counts) => {
      const found = bounded(counts.map((count, i) => ({ image: `a${i}`, count }))).map(({ count }) => count);
      const sum = found.reduce((a, b) => a + b, 0);
      expect(sum).toBe(Math.min(WARM_MAX, counts.reduce((a, b) => a + b, 0))); // prettier-ignore
      expect(found.every((count, i) => count <= (counts[i] ?? 0))).toBe(true);
    }),
  );
});

test("entries of one shape are one, with the counts of all", () => {
  const a = { image: "a", count: 2 };
  expect(bounded([a, { image: "b", count: 1 }, a, { ...a, count: 1 }])).toStrictEqual([
    { image: "a", count: 5 },
    { image: "b", count: 1 },
  ]);
  expect(bounded([a, { ...a, profile: "packages" }])).toHaveLength(2);
});
