import { expect, test } from "vitest";
import type { View } from "../../src/core/kind.ts";
import type { Source } from "../../src/core/resource.ts";
import type { StackAnswer, StackRequest } from "../../src/core/source.ts";
import { intervalMs } from "./interval.ts";
import { planSource } from "./plan.ts";
import { baseOf, revisionText } from "./revision.ts";
import type { SourceSeen } from "./seen.ts";

const view = { now: 0 } as View;
const COMMIT = "a".repeat(40);

const sourceOf = (spec: Partial<Source["spec"]> = {}, more: Partial<Source> = {}): Source =>
  ({
    metadata: { name: "stacks", generation: 1 },
    spec: {
      path: "/srv",
      prune: true,
      selfHeal: "heal",
      interval: "30s",
      suspend: false,
      maxDeletes: "30%",
      allowEmpty: false,
      vars: {},
      ...spec,
    },
    ...more,
  }) as unknown as Source;

const request = { source: "stacks", key: "k2", hash: "h2", revision: "#h2" } as StackRequest;
const accepted = { key: "k1", hash: "h1", revision: "#h1", at: 0, objects: 3 };
const seen = (more: Partial<SourceSeen> = {}): SourceSeen => ({
  name: "stacks",
  path: "/srv",
  watched: "/srv 1:1",
  tree: { ok: true, tree: { place: "/srv 1:1", hash: "h1", files: 3 } },
  accepted,
  drift: [],
  held: 3,
  ...more,
});
const offer = (answer: StackAnswer, of: Partial<StackRequest> = {}) => ({ offer: { request: { ...request, ...of }, answer } });
const plan = (facts: SourceSeen, source = sourceOf()) => planSource({ object: source, deleting: false }, facts, view);
const FINE: StackAnswer = { state: "fine", changed: 2, unchanged: 1, deleted: 1 };

test("what is applied already plans nothing and looks again after the interval", () => {
  expect(plan(seen())).toMatchObject({ actions: [], ready: true, reason: "Ready", wait: { ms: 30_000 } });
  expect(plan(seen(), sourceOf({ interval: "5m" })).wait).toEqual({ ms: 300_000 });
});

test("a new revision is applied, and the plan says what of it changes", () => {
  const { actions, ready } = plan(seen(offer(FINE)));
  expect([ready, actions.map(({ summary }) => summary)]).toEqual([true, ["apply revision #h2: 2 changed, 1 deleted"]]);
});

test("whatever refuses a revision, the accepted one keeps running and nothing is done", () => {
  const problem = { message: 'unknown field "tool"', at: { file: "a.yaml", line: 14, column: 3 }, hint: "did you mean tools?" };
  const refusals: readonly (readonly [StackAnswer, string, string])[] = [
    [
      { state: "problems", problems: [problem, problem, problem] },
      "InvalidRevision",
      '#h2 is not valid: a.yaml:14:3 unknown field "tool"; did you mean tools? (and 2 more); #h1 keeps running',
    ],
    [
      { state: "conflicts", message: "agent/a spec.x is owned by apply/default", hint: "" },
      "Conflict",
      "agent/a spec.x is owned by apply/default",
    ],
    [{ state: "refused", message: "the folder holds no objects any more", hint: "allowEmpty: true" }, "PruneRefused", "allowEmpty"],
  ];
  for (const [answer, reason, text] of refusals) {
    const { actions, ready, degraded, message, reason: said } = plan(seen(offer(answer)));
    expect([actions, ready, said, degraded?.reason]).toEqual([[], false, reason, reason]);
    expect(message).toContain(text);
  }
  expect(plan(seen({ tree: { ok: false, reason: "PathMissing", message: "folder /srv does not exist" } }))).toMatchObject({
    actions: [],
    ready: false,
    reason: "PathMissing",
    message: "folder /srv does not exist; #h1 keeps running",
  });
});

test("drift is mended under heal, told under detect, and mended from the accepted text while the folder is broken", () => {
  const drift = [{ path: "agent/a", after: "deleted" }];
  const heals = plan(seen({ drift, ...offer({ ...FINE, deleted: 0 }, { key: "k1", revision: "#h1" }) }));
  expect(heals.actions.map(({ summary, why }) => [summary, why])).toEqual([["put back revision #h1: 2 changed", "drift"]]);
  expect(heals.drift).toBeUndefined();
  expect(plan(seen({ drift }), sourceOf({ selfHeal: "detect" }))).toMatchObject({ actions: [], ready: true, drift });
  const repair = { request: { ...request, key: "k1", revision: "#h1" }, answer: { ...FINE, deleted: 0 } };
  const broken = plan(seen({ drift, repair, ...offer({ state: "problems", problems: [] }) }));
  expect(broken).toMatchObject({ ready: false, reason: "InvalidRevision", drift });
  expect(broken.actions.map(({ summary }) => summary)).toEqual(["put back revision #h1: 2 changed"]);
});

test("a suspended source is not watched and waits for nobody", () => {
  const { tree: _tree, ...rest } = seen();
  const { actions, wait, suspended } = plan(rest, sourceOf({ suspend: true }));
  expect([actions.map(({ type }) => type), wait, suspended]).toEqual([["unwatch"], undefined, true]);
});

test("a folder that was replaced is watched anew", () => {
  const { actions } = plan(seen({ watched: "/srv 1:9" }));
  expect(actions.map(({ type }) => type)).toEqual(["watch"]);
});

test("deleting a source deletes its objects only when it prunes, an orphan never does, and afterwards it may go", () => {
  const of = (prune: boolean, facts: SourceSeen) => planSource({ object: sourceOf({ prune }), deleting: true }, facts, view);
  const releases = (p: ReturnType<typeof planSource>) => p.actions.flatMap((a) => (a.type === "release" ? [String(a.delete)] : [a.type]));
  expect(releases(of(true, seen()))).toEqual(["unwatch", "true"]);
  expect(releases(of(false, seen()))).toEqual(["unwatch", "false"]);
  expect(releases(planSource(undefined, seen(), view))).toEqual(["unwatch", "false"]);
  expect(of(true, { name: "stacks", drift: [], held: 0 })).toMatchObject({ actions: [], gone: true });
});

test("a revision is named by branch and commit, and marked when its content is not what that commit came with", () => {
  const git = { commit: COMMIT, branch: "main" };
  const first = { hash: "1".repeat(64), git };
  const base = baseOf(first, undefined);
  expect(revisionText(first, base)).toBe("main@aaaaaaa");
  const kept = { commit: COMMIT, commitHash: first.hash };
  const edited = { hash: "2".repeat(64), git };
  expect(revisionText(edited, baseOf(edited, kept))).toBe("main@aaaaaaa+2222222");
  const committed = { hash: edited.hash, git: { commit: "b".repeat(40), branch: "main" } };
  expect(revisionText(committed, baseOf(committed, kept))).toBe("main@bbbbbbb");
  expect(revisionText({ hash: first.hash, git: { commit: COMMIT } }, base)).toBe("aaaaaaa");
  expect(revisionText({ hash: first.hash }, undefined)).toBe("#1111111");
});

test("an interval is seconds, minutes or hours, at most a day", () => {
  expect(["1s", "90s", "5m", "2h", "99999h", "x"].map(intervalMs)).toEqual([1_000, 90_000, 300_000, 7_200_000, 86_400_000, 30_000]);
});
