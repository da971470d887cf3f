import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createHost } from "./host.ts";

let home = "";
beforeEach(() => (home = mkdtempSync(join(tmpdir(), "beige-host-"))));
afterEach(() => rmSync(home, { recursive: true, force: true }));
const write = (text: string, mode = 0o600): void => {
  writeFileSync(join(home, "host.yaml"), text, { mode });
  chmodSync(join(home, "host.yaml"), mode);
};

test("without a file nothing is allowed and nothing is wrong", () => {
  const host = createHost({ home });
  expect(host.policy()).toEqual({ secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } });
  expect(host.error()).toBeUndefined();
});

test("a change is read at the next look, and a removed file allows nothing again", () => {
  const host = createHost({ home });
  write("paths: {plugins: [/opt/plugins]}\n");
  expect(host.policy().paths.plugins).toEqual(["/opt/plugins"]);
  write("secrets: [{name: openai, env: OPENAI_API_KEY, hosts: [api.openai.com]}]\n");
  expect(host.policy().secrets[0]).toMatchObject({ name: "openai", hosts: ["api.openai.com"] });
  rmSync(join(home, "host.yaml"));
  expect(host.policy().secrets).toEqual([]);
});

test("a broken file changes nothing, is told with its line, and never shows a value", () => {
  const host = createHost({ home });
  write("paths: {plugins: [/opt]}\n");
  host.policy();
  for (const bad of ["paths: [", "secrets: [{name: x, value: sk-hunter22}]\n", "unknown: 1\n", "a: 1\na: 2\n"]) {
    write(bad);
    expect(host.policy().paths.plugins, bad).toEqual(["/opt"]);
    expect(host.error(), bad).toContain("host.yaml");
    expect(host.error()).not.toContain("hunter22");
  }
  write("paths: {plugins: [/new]}\n");
  expect(host.policy().paths.plugins).toEqual(["/new"]);
  expect(host.error()).toBeUndefined();
});

test("a file that others can read or write is not the operator's word", () => {
  const host = createHost({ home });
  write("paths: {plugins: [/opt]}\n", 0o644);
  expect(host.policy().paths.plugins).toEqual([]);
  expect(host.error()).toContain("chmod 600");
});
