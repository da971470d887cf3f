import fc from "fast-check";
import { expect, test } from "vitest";
import { CORE_TOOLS } from "./call.ts";
import { decide } from "./policy.ts";
import type { Agent } from "./resource.ts";

const agent = (spec: Partial<Agent["spec"]>, metadata: Partial<Agent["metadata"]> = {}): Agent =>
  ({
    metadata: { name: "travel", namespace: "default", uid: "u", ...metadata },
    spec: { coreTools: [...CORE_TOOLS], tools: [], suspend: false, ...spec },
  }) as unknown as Agent;

const owner =
  (table: Readonly<Record<string, readonly string[]>>) =>
  (tool: string): readonly string[] =>
    Object.hasOwn(table, tool) ? (table[tool] ?? []) : [];

test("an agent without a tool in its list may not call it, whatever plugins offer", () => {
  expect(decide(agent({}), owner({ git: ["git"] }), "git")).toEqual({ allowed: false });
});

test("a listed tool of the one plugin that has it is allowed", () => {
  expect(decide(agent({ tools: ["git"] }), owner({ git: ["scm"] }), "git")).toEqual({
    allowed: true,
    kind: "tool",
    tool: "git",
    plugin: "scm",
  });
});

test("a listed tool whose plugin is not loaded is allowed, and known to be absent", () => {
  expect(decide(agent({ tools: ["git"] }), owner({}), "git")).toEqual({ allowed: true, kind: "tool", tool: "git" });
  expect(decide(agent({ tools: ["a/git"] }), owner({ git: ["b"] }), "git")).toEqual({ allowed: true, kind: "tool", tool: "git" });
});

test("a tool that two plugins have is refused until the manifest says which", () => {
  const two = owner({ git: ["a", "b"] });
  expect(decide(agent({ tools: ["git"] }), two, "git")).toMatchObject({ allowed: false, reason: expect.stringContaining("PLUGIN/TOOL") });
  expect(decide(agent({ tools: ["b/git"] }), two, "git")).toEqual({ allowed: true, kind: "tool", tool: "git", plugin: "b" });
  expect(decide(agent({ tools: ["b/git"] }), two, "b/git")).toEqual({ allowed: true, kind: "tool", tool: "git", plugin: "b" });
  expect(decide(agent({ tools: ["b/git"] }), two, "a/git")).toEqual({ allowed: false });
  expect(decide(agent({ tools: ["a/git", "b/git"] }), two, "git")).toMatchObject({ allowed: false });
  expect(decide(agent({ tools: ["a/git", "b/git"] }), two, "a/git")).toMatchObject({ allowed: true, plugin: "a" });
});

test("core tools are allowed as the manifest narrows them", () => {
  expect(decide(agent({ coreTools: ["read"] }), owner({}), "read")).toEqual({ allowed: true, kind: "core_tool", tool: "read" });
  expect(decide(agent({ coreTools: ["read"] }), owner({ exec: ["evil"] }), "exec")).toEqual({ allowed: false });
});

test("a suspended and a deleted agent may call nothing, and is told why", () => {
  expect(decide(agent({ suspend: true }), owner({}), "read")).toMatchObject({ allowed: false, reason: "the agent is suspended" });
  const going = agent({ tools: ["git"] }, { deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(decide(going, owner({ git: ["git"] }), "git")).toMatchObject({ allowed: false, reason: "the agent is being deleted" });
});

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,3}$/);
const entry = fc.oneof(
  word,
  fc.tuple(word, word).map(([plugin, tool]) => `${plugin}/${tool}`),
);

test("what is allowed is always in the list, and its plugin always has it", () => {
  fc.assert(
    fc.property(fc.array(entry), fc.dictionary(word, fc.uniqueArray(word)), fc.oneof(entry, fc.string()), (tools, table, name) => {
      const permission = decide(agent({ tools, coreTools: [] }), owner(table), name);
      if (!permission.allowed || permission.kind !== "tool") return;
      const said = tools.includes(permission.tool) || tools.some((listed) => listed.endsWith(`/${permission.tool}`));
      expect(said).toBe(true);
      if (permission.plugin !== undefined) {
        expect(table[permission.tool]).toContain(permission.plugin);
        const named = tools.filter((listed) => listed.endsWith(`/${permission.tool}`));
        if (named.length > 0) expect(named).toContain(`${permission.plugin}/${permission.tool}`);
      }
    }),
  );
});

test("hostile names are refused, never looked up in a prototype", () => {
  for (const name of ["__proto__", "constructor", "../git", "git\0", "toString", "/git", "git/", ""]) {
    expect(decide(agent({ tools: ["git"] }), owner({ git: ["git"] }), name).allowed, name).toBe(false);
  }
});
