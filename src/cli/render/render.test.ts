import { expect, test } from "vitest";
import type { ApplyEvent, ObjectPlan, StackPlan } from "../../core/control.ts";
import type { Resource } from "../../core/resource.ts";
import { paper } from "../harness.ts";
import { leaves, renderDescribe } from "./describe.ts";
import { textDiff } from "./lines.ts";
import { renderMarkdown } from "./markdown.ts";
import { renderPlan } from "./plan.ts";
import { liveProgress, plainProgress } from "./progress.ts";
import { drawTable } from "./table.ts";

const agent = (name: string) => ({ kind: "Agent", namespace: "default", name });
const one = (name: string, verb: ObjectPlan["verb"], more: Partial<ObjectPlan> = {}): ObjectPlan => ({
  ref: agent(name),
  verb,
  why: ["spec"],
  fields: [],
  drift: [],
  actions: [],
  ...more,
});
const stack = (...objects: ObjectPlan[]): StackPlan => {
  const count = (verb: ObjectPlan["verb"]): number => objects.filter((each) => each.verb === verb).length;
  return {
    objects,
    left: [],
    summary: {
      create: count("create"),
      update: count("update"),
      replace: count("replace"),
      delete: count("delete"),
      unchanged: count("unchanged"),
    },
  };
};

const text = (...lines: string[]): string => Array.from({ length: 40 }, (_, i) => (i === 11 ? lines[0] : `line ${i + 1}`)).join("\n");
const changed = stack(
  one("travel", "update", {
    sessions: 2,
    fields: [
      { path: "model.id", before: "claude-sonnet-4-5", after: "claude-sonnet-4-6" },
      { path: "tools[git]", after: "git" },
      { path: "instructions", before: text("Answer in English."), after: text("Answer in the user's language.") },
    ],
  }),
  one("nightly", "replace", {
    why: ["drift"],
    forces: "sandbox.image",
    fields: [{ path: "sandbox.image", before: "beige:1.4", after: "beige:1.5" }],
    drift: [{ path: "memory", before: "1Gi", after: "3Gi" }],
    actions: ["create container beige-nightly"],
  }),
  {
    ...one("git", "update"),
    ref: { kind: "Plugin", namespace: "", name: "git" },
    fields: [{ path: "secrets.token", before: "[secret]", after: "[secret]" }],
  },
  { ...one("old", "delete", { why: ["prune"] }), ref: { kind: "Schedule", namespace: "team", name: "old" } },
  one("new", "create", { fields: [{ path: "model.id", after: "x" }] }),
  one("same", "unchanged"),
);

test("a plan shows changed fields only, what forces a replacement, and a last line that can be grepped", () => {
  expect(renderPlan(paper(), changed)).toMatchSnapshot();
});

test("nothing to do is one sentence", () => {
  expect(renderPlan(paper(), stack(one("a", "unchanged"), one("b", "unchanged")))).toBe("No changes: 2 objects match what is running.\n");
  expect(renderPlan(paper(), { ...stack(one("a", "unchanged")), left: [agent("gone")] })).toBe(
    "No longer in the manifests, kept: agent/gone   (--prune deletes)\nNo changes: 1 object matches what is running.\n",
  );
});

test("an object that takes over a running container is new: its fields are not repeated, and nothing is said to force a replacement", () => {
  const fields = [{ path: "sandbox", after: { image: "a" }, forces: true }];
  const plan = stack(one("a", "adopt", { fields, actions: ["take over container beige-a"] }));
  expect(renderPlan(paper(), { ...plan, summary: { ...plan.summary, create: 1 } })).toBe(
    [
      "+ create   ~ update   - delete   ⇐ adopt",
      `${"agent/a".padEnd(44)} ⇐ adopt`,
      "    take over container beige-a",
      "Plan: 1 to create, 0 to update, 0 to replace, 0 to delete. 1 of those to create takes over what is there.",
      "",
    ].join("\n"),
  );
  expect(renderMarkdown(plan, how)).not.toContain("forces replacement");
});

test("without a UTF-8 locale a plan is ASCII", () => {
  const shown = renderPlan(paper({ unicode: false }), stack(one("a", "adopt", { fields: [{ path: "x", before: 1, after: 2 }] })));
  // eslint-disable-next-line no-control-regex -- the range is what is tested
  expect(shown).toMatch(/^[\u0000-\u007f]*$/);
});

test("others' text cannot move the cursor or hide what a plan says", () => {
  const evil = "\u001B[2J\u001B[31mx\u202Ey\r\nfake: 0 to delete";
  const shown = renderPlan(
    paper(),
    stack(one("a", "update", { message: evil, actions: [evil], fields: [{ path: evil, before: evil, after: evil }] })),
  );
  // eslint-disable-next-line no-control-regex -- the range is what is tested
  expect(shown).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
  expect(shown.split("\n").filter((line) => line.startsWith("fake"))).toEqual([]);
});

const how = { title: "stacks", against: "live", next: "`beige apply -f stacks`" };

test("a comment for a pull request puts deletes, replacements and permissions above the fold", () => {
  expect(renderMarkdown(changed, how)).toMatchSnapshot();
});

test("the same plan gives the same bytes", () => {
  expect(renderMarkdown(structuredClone(changed), how)).toBe(renderMarkdown(changed, how));
});

test("a comment stays under GitHub's limit and says what it left out", () => {
  const big = stack(
    ...Array.from({ length: 500 }, (_, i) =>
      one(`a${i}`, "update", { fields: [{ path: "instructions", before: "x".repeat(400), after: `y${i}`.repeat(200) }] }),
    ),
  );
  const shown = renderMarkdown(big, how);
  expect(Buffer.byteLength(shown)).toBeLessThan(60_000);
  expect(shown).toMatch(/\d+ more objects are not shown/);
});

test("a value with fences, tags or mentions cannot break out of its block", () => {
  const evil = "```\n</details><img src=x> @everyone\n````";
  const shown = renderMarkdown(stack(one("a", "update", { fields: [{ path: "instructions", before: evil, after: `${evil}x` }] })), {
    ...how,
    title: "a --> <script>",
  });
  expect(shown).toContain("`````diff");
  expect(shown.split("\n")[0]).toBe("<!-- beige-diff a______script_ -->");
});

test("a text's changed lines are found in the middle of many", () => {
  expect(textDiff("a\nb\nc", "a\nB\nc")).toEqual({ changed: 1, lines: ["@@ -2 +2 @@", "-b", "+B"] });
  expect(textDiff("a\nb\nc\nd", "a\nc\nd\ne")).toEqual({ changed: 2, lines: ["@@ -2 +2 @@", "-b", "@@ -5 +4 @@", "+e"] });
  expect(textDiff("same", "same")).toEqual({ changed: 0, lines: [] });
  expect(textDiff("x\n".repeat(5000), "y\n".repeat(5000)).lines.length).toBeLessThan(50);
});

const progress = (
  name: string,
  state: "working" | "waiting" | "ready" | "failed" | "gone",
  more: Partial<Extract<ApplyEvent, { type: "progress" }>> = {},
) => ({ type: "progress", ref: agent(name), verb: "create", state, reason: "", message: "", elapsedMs: 100, ...more }) as const;

test("without a terminal each object is one line, once it is over", async () => {
  const out = paper();
  const shown = plainProgress(out);
  await shown.event(progress("a", "working"));
  await shown.event(progress("a", "ready"));
  await shown.event(progress("a", "ready"));
  await shown.event(progress("b", "ready", { verb: "unchanged" }));
  await shown.event(progress("c", "failed", { verb: "replace", reason: "ImageMissing", message: "beige:1.5 not found" }));
  await shown.event(progress("d", "gone", { verb: "delete", message: "last run kept" }));
  expect(out.out()).toBe("agent/a created\nagent/c failed: ImageMissing: beige:1.5 not found\nagent/d deleted (last run kept)\n");
});

test("on a terminal the block is painted in place, and at most ten times a second", async () => {
  const out = paper({ live: true, columns: 60 });
  let now = 0;
  const shown = liveProgress(out, () => now);
  shown.plan(stack(one("a", "create"), one("b", "create")));
  for (let i = 0; i < 500; i++) await shown.event(progress("a", "working", { reason: "Creating", message: "x".repeat(200) }));
  await new Promise((done) => setTimeout(done, 350));
  now = 1000;
  await shown.event(progress("a", "ready"));
  shown.stop();
  shown.stop();
  await new Promise((done) => setTimeout(done, 250));
  const paints = out.err().split("[+]").length - 1;
  expect(paints).toBeGreaterThan(1);
  expect(paints).toBeLessThanOrEqual(6);
  expect(
    out
      .err()
      .split("\n")
      .every((line) => line.length <= 70),
  ).toBe(true);
  expect(out.err()).toContain("[+] 1/2");
});

test("columns stand below each other and cut at the terminal's width only", () => {
  const rows = [
    ["travel", "yes"],
    ["nightly", "image beige:1.5 not found"],
  ];
  expect(drawTable(["NAME", "WHY"], rows)).toMatchObject({
    header: "NAME      WHY",
    rows: ["travel    yes", "nightly   image beige:1.5 not found"],
  });
  expect(drawTable(["NAME", "WHY"], rows, { width: 20 }).rows[1]).toBe("nightly   image bei…");
});

test("describe starts with the verdict", () => {
  const object: Resource = {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: {
      name: "nightly",
      namespace: "team",
      uid: "u",
      resourceVersion: "5",
      generation: 2,
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { team: "ops" },
    },
    spec: {
      model: { provider: "echo", id: "echo" },
      instructions: "a\nb\nc",
      tools: ["git", "memory"],
      fallbacks: [],
      sandbox: { image: "beige:1.5" },
    },
    status: {
      observedGeneration: 1,
      observed: { container: { id: "4f2a9c", state: "running" } },
      conditions: [
        {
          type: "Ready",
          status: "False",
          reason: "ImageMissing",
          message: "beige:1.5 not found",
          lastTransitionTime: "2026-01-01T00:00:00Z",
          observedGeneration: 2,
        },
        {
          type: "Drifted",
          status: "True",
          reason: "Drift",
          message: "memory 1Gi",
          lastTransitionTime: "2026-01-01T00:00:00Z",
          observedGeneration: 2,
        },
      ],
    },
  };
  const described = {
    object,
    plan: one("nightly", "replace", {
      why: ["image"],
      fields: [{ path: "sandbox.image", before: "a", after: "b" }],
      actions: ["create container beige-team.nightly"],
    }),
    events: [
      {
        name: "e",
        ref: agent("nightly"),
        uid: "u",
        type: "Warning" as const,
        reason: "ImageMissing",
        message: "beige:1.5 not found",
        count: 3,
        first: "2026-01-01T00:00:00Z",
        last: "2026-01-01T01:00:00Z",
      },
    ],
    revisions: [{ revision: 1, at: "2026-01-01T00:00:00Z", manager: "apply/default", fields: ["model.id"] }],
  };
  expect(renderDescribe(paper(), described, Date.parse("2026-01-01T02:00:00Z"))).toMatchSnapshot();
  const managedFields = [{ manager: "apply/default" }, { manager: "source/stacks" }, { manager: "edit" }];
  const hardened = { type: "Hardened", status: "False", reason: "HostLacks", message: "this machine lacks AppArmor" };
  const soft = { ...described, object: { ...object, status: { ...object.status, conditions: [hardened] } } } as never;
  expect(renderDescribe(paper(), soft, 0)).toContain("\n             Hardened=False   this machine lacks AppArmor\n");
  const owned = { ...described, object: { ...described.object, metadata: { ...described.object.metadata, managedFields } } } as never;
  const sources = new Map([["stacks", "main@3f9c2a1"]]);
  expect(renderDescribe(paper(), Object.assign(owned, { sources }), 0)).toMatch(/^Owned by {5}set default, source\/stacks main@3f9c2a1$/m);
});

test("describe says once why nothing is done, and keeps the columns of its events", () => {
  const metadata = { name: "a", namespace: "default", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" };
  const message = "image x is not on the engine";
  const object = {
    kind: "Agent",
    metadata,
    spec: {},
    status: { conditions: [{ type: "Ready", status: "False", reason: "ImageMissing", message }] },
  };
  const event = (last: string, type: string) => ({ type, reason: "Done", message: "m", count: 1, last });
  const events = [event("2026-01-01T00:00:00Z", "Normal"), event("2026-01-01T01:59:59Z", "Warning")];
  const described = { object, plan: one("a", "unchanged", { message }), events, revisions: [] } as never;
  const lines = renderDescribe(paper({ tty: true }), described, Date.parse("2026-01-01T02:00:00Z")).split("\n");
  expect(lines.filter((each) => each.includes(message))).toEqual([`Why          ${message}`]);
  expect(leaves({ build: { atMs: 0, tries: 3 } })).toEqual([
    ["build.at", "1970-01-01T00:00:00.000Z"],
    ["build.tries", "3"],
  ]);
  expect(lines.slice(-3, -1)).toEqual(["  2h  Normal   Done  m", "  1s  Warning  Done  m"]);
});

test("describe says what a replacement waits for, and that drift is only told where nothing is done about it", () => {
  const object = {
    kind: "Agent",
    metadata: { name: "man", namespace: "default", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: {},
  };
  const shown = (plan: ObjectPlan): string =>
    renderDescribe(paper(), { object: object as unknown as Resource, plan, events: [], revisions: [] }, 0);
  const held = {
    why: "spec" as const,
    fields: [{ path: "sandbox.image", before: "a", after: "b", forces: true }],
    until: "held back until it is idle",
  };
  expect(shown(one("man", "replace-later", { held }))).toContain(
    "To do        replace, later (spec): sandbox.image\n             held back until it is idle\n",
  );
  const drift = [{ path: "agent/gitops", before: "x", after: "y" }];
  expect(shown(one("man", "update", { why: ["drift"], drift }))).toContain("Drifted      left as it is: agent/gitops\n");
  const told = renderPlan(paper(), stack(one("man", "update", { why: ["drift"], drift }), one("b", "replace-later", { held, drift })));
  expect(told).toContain("! agent/gitops y wanted, x found   stays\n");
  expect(told).toContain("! agent/gitops y wanted, x found   held back\n");
  expect(told).toContain("~ sandbox.image       a → b   forces replacement, held back\n");
});
