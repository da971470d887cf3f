import { expect, test } from "vitest";
import type { KeyAsk } from "../core/keys.ts";
import type { Shelf } from "../core/world.ts";
import { createKeys } from "./keys.ts";

const DAY_MS = 86_400_000;
const ask = (more: Partial<KeyAsk> = {}): KeyAsk => ({ name: "ci", role: "caller", agents: ["travel"], ...more });

function rig() {
  const kept = new Map<string, string>();
  const shelf: Shelf = {
    get: (key) => kept.get(key),
    set: (key, value) => void kept.set(key, value),
    delete: (key) => void kept.delete(key),
    list: (prefix) => [...kept].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => ({ key, value })),
  };
  const at = { ms: 100 * DAY_MS };
  let n = 0;
  const make = () => createKeys({ shelf, clock: { now: () => at.ms }, random: { hex: (bytes) => `${++n}`.padStart(2 * bytes, "0") } });
  return { kept, at, make };
}

test("the secret is shown once, and only its hash is kept", () => {
  const { kept, make } = rig();
  const { secret, key } = make().create(ask());
  expect(secret).toMatch(/^bge_[\w-]{43}$/);
  expect(JSON.stringify([...kept, key, make().list()])).not.toContain(secret);
  expect(make().find(secret)).toEqual({ ok: true, name: "ci", principal: { kind: "caller", key: "ci", agents: ["travel"] } });
  expect(make().find(`${secret}x`)).toEqual({ ok: false, why: "unknown" });
  expect(make().find("")).toEqual({ ok: false, why: "unknown" });
});

test("a revoked key and an expired one are refused at once and after a start, and their names are not given again", () => {
  const { at, make } = rig();
  const keys = make();
  const revoked = keys.create(ask());
  const expiring = keys.create(ask({ name: "short", expiresAt: at.ms + 1000 }));
  keys.revoke("ci");
  for (const each of [keys, make()]) expect(each.find(revoked.secret)).toEqual({ ok: false, why: "revoked" });
  at.ms += 1000;
  expect(keys.find(expiring.secret)).toEqual({ ok: false, why: "expired" });
  keys.create(ask({ name: "stays" }));
  expect(["ci", "short", "stays", "none"].map((name) => keys.good(name))).toEqual([false, false, true, false]);
  expect(() => make().create(ask())).toThrow(/there is, or was, a key ci/);
  expect(() => keys.revoke("none")).toThrow(/there is no key/);
});

test("requests are counted a UTC day; a crash gives none back beyond what was written ahead, an orderly end all", () => {
  const { at, make } = rig();
  const keys = make();
  keys.create(ask({ requests: 3 }));
  for (let i = 0; i < 3; i++) keys.spend("ci");
  expect(() => keys.spend("ci")).toThrow(/used its 3 requests/);
  expect(() => make().spend("ci")).toThrow(/used its 3 requests/);
  at.ms += DAY_MS;
  keys.spend("ci");
  // Killed here: what was written ahead counts as used.
  expect(() => make().spend("ci")).toThrow(/used its 3 requests/);
  keys.close();
  const after = make();
  after.spend("ci");
  expect(after.list()[0]).toMatchObject({ used: { requests: 2, sessions: 0 }, lastUsedAt: at.ms });
});

test("sessions are counted once a day each", () => {
  const { at, make } = rig();
  const keys = make();
  keys.create(ask({ sessions: 2 }));
  for (const session of ["a", "b", "a"]) keys.session("ci", session);
  expect(() => make().session("ci", "c")).toThrow(/used its 2 sessions/);
  make().session("ci", "b");
  at.ms += DAY_MS;
  keys.session("ci", "c");
});

test("the last use is written at most once a minute", () => {
  const { kept, at, make } = rig();
  const keys = make();
  keys.create(ask());
  const seen = new Set<string | undefined>();
  for (let i = 0; i < 130; i++) {
    keys.spend("ci");
    seen.add(kept.get("key-use/ci"));
    at.ms += 1000;
  }
  expect(seen.size).toBe(3);
});

test.each([
  { name: "Bad Name" },
  { role: "root" as "viewer" },
  { agents: [] },
  { agents: ["../x"] },
  { role: "viewer" as const },
  { requests: 0 },
  { sessions: 0.5 },
  { expiresAt: 1 },
])("a key with %j is not made", (wrong) => {
  const { kept, make } = rig();
  expect(() => make().create(ask(wrong))).toThrow();
  expect(kept.size).toBe(0);
});
