import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import type { SessionView, SettingsPatch } from "../core/session.ts";
import { commandIn, obey, type Levers } from "./commands.ts";

test.each([
  ["/new", { name: "new" }],
  [" /status \n", { name: "status" }],
  ["/stop@beige_bot", { name: "stop" }],
  ["/start", { name: "start" }],
  ["/verbose on", { name: "verbose", on: true }],
  ["/v off", { name: "verbose", on: false }],
  ["/v", { name: "verbose" }],
  ["/v maybe", { name: "usage", of: "verbose" }],
  ["/model", { name: "model" }],
  ["/model p/m/x", { name: "model", wanted: "p/m/x" }],
  ["/new please", { name: "usage", of: "new" }],
])("%j is a command", (text, command) => {
  expect(commandIn(text)).toEqual(command);
});

test.each(["/newer", "/news today", "/unknown", "new", "say /new", "/", "/etc/passwd is a file", "/NEW", "/new\nline two", "//new"])(
  "%j is a message",
  (text) => {
    expect(commandIn(text)).toBeUndefined();
  },
);

function levers(): Levers & { readonly patches: SettingsPatch[] } {
  const patches: SettingsPatch[] = [];
  const view: SessionView = {
    session: "cli:default",
    createdAt: 0,
    updatedAt: 0,
    running: false,
    waiting: 0,
    settings: { model: { provider: "p", id: "m" }, thinking: "off", verbose: false },
    set: {},
  };
  return { patches, view: () => view, change: (patch) => patches.push(patch), renew: () => {}, stop: () => 0 };
}

test("a model is chosen by its whole name or by an id that only one has, and never outside the list", () => {
  const agent = w.agent("dev", [
    ["p", "m"],
    ["q", "n"],
    ["r", "m"],
  ]);
  const at = levers();
  expect(obey({ name: "model", wanted: "q/n" }, agent, at)).toContain("next message");
  obey({ name: "model", wanted: "n" }, agent, at);
  obey({ name: "model", wanted: "default" }, agent, at);
  expect(obey({ name: "model", wanted: "m" }, agent, at)).toBe("There is no model m here. Models: p/m, q/n, r/m.");
  expect(at.patches).toEqual([{ model: { provider: "q", id: "n" } }, { model: { provider: "q", id: "n" } }, { model: null }]);
});
