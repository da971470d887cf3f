import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSeatFolders, notMoved } from "./seats.ts";

const folders = createSeatFolders();
let home: string;
let usual: string;
let workspace: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-seats-"));
  usual = join(home, "agents/default.travel/workspace");
  workspace = join(home, "warm/0123456789/workspace");
  mkdirSync(workspace, { recursive: true });
  writeFileSync(join(workspace, "file"), "kept");
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

test("the usual place leads to the workspace; a link that leads elsewhere is set right, a folder is left alone", async () => {
  await folders.point(usual, workspace);
  expect(readFileSync(join(usual, "file"), "utf8")).toBe("kept");
  rmSync(usual);
  symlinkSync("/elsewhere", usual);
  await folders.point(usual, workspace);
  expect(readlinkSync(usual)).toBe(workspace);
  rmSync(usual);
  mkdirSync(usual);
  await folders.point(usual, workspace);
  expect(lstatSync(usual).isDirectory()).toBe(true);
});

test("a workspace that comes home takes the place of its link, and a second time changes nothing", async () => {
  await folders.point(usual, workspace);
  await folders.bringHome(usual, workspace);
  await folders.bringHome(usual, workspace);
  expect([lstatSync(usual).isDirectory(), readFileSync(join(usual, "file"), "utf8"), existsSync(workspace)]).toEqual([true, "kept", false]);
  await folders.tidy(join(home, "warm/0123456789"));
  expect(existsSync(join(home, "warm/0123456789"))).toBe(false);
});

test("nothing that is at the usual place is lost: the workspace stays, and it is said what to do", async () => {
  mkdirSync(usual, { recursive: true });
  writeFileSync(join(usual, "other"), "precious");
  await expect(folders.bringHome(usual, workspace)).rejects.toMatchObject({ code: "conflict", hint: `mv ${usual} ${usual}.other` });
  expect([readFileSync(join(usual, "other"), "utf8"), readFileSync(join(workspace, "file"), "utf8")]).toEqual(["precious", "kept"]);
});

test("where it cannot move for another reason, that is said, and what brings it there", () => {
  const said = (code: string) =>
    notMoved("/h/warm/1/workspace", "/h/agents/a/workspace", Object.assign(new Error(`${code}: no`), { code }));
  expect(said("EXDEV")).toMatchObject({
    message: "workspace /h/warm/1/workspace cannot move to /h/agents/a/workspace: that is another file system",
    hint: "rm -f /h/agents/a/workspace && cp -a /h/warm/1/workspace /h/agents/a/workspace && rm -rf /h/warm/1/workspace",
  });
  expect(said("EACCES")).toMatchObject({ message: expect.stringContaining("EACCES: no"), hint: "ls -la /h/agents/a /h/warm/1" });
  expect(said("ENOTDIR").message).toContain("something is there");
});

test("of a workspace that was deleted only the link goes", async () => {
  await folders.point(usual, workspace);
  rmSync(workspace, { recursive: true });
  await folders.bringHome(usual, workspace);
  expect(lstatSync(usual, { throwIfNoEntry: false })).toBeUndefined();
});
