import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import { openHome } from "./home.ts";

let folder = "";
beforeEach(() => (folder = realpathSync(mkdtempSync(join(tmpdir(), "beige-home-")))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("it is made for its owner alone, with a folder for logs, and a link to it is resolved", () => {
  const home = join(folder, "a/b c ü");
  expect(openHome(home)).toBe(home);
  expect(statSync(home).mode & 0o777).toBe(0o700);
  expect(statSync(join(home, "logs")).isDirectory()).toBe(true);
  symlinkSync(home, join(folder, "link"));
  expect(openHome(join(folder, "link"))).toBe(home);
});

test.each<[string, (path: string) => void, string]>([
  ["a file", (path) => writeFileSync(path, ""), "there is a file of that name"],
  ["below a file", (path) => writeFileSync(path.slice(0, path.lastIndexOf("/")), ""), "a part of it is a file"],
  [
    "a link to nothing below a file",
    (path) => (writeFileSync(`${path}.f`, ""), symlinkSync(`${path}.f/x`, path)),
    "a part of it is a file",
  ],
  ["a link to itself", (path) => symlinkSync(path, path), "cannot be the gateway's folder"],
  ["one whose logs are a file", (path) => (mkdirSync(path), writeFileSync(join(path, "logs"), "")), "there is a file of that name"],
])("%s is refused in plain words, with what to do", (name, make, why) => {
  const path = join(folder, name === "below a file" ? "f/home" : "home");
  make(path);
  let thrown: unknown;
  try {
    openHome(path);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(BeigeError);
  expect(thrown).toMatchObject({ code: "unavailable", message: expect.stringContaining(why) as string });
  expect((thrown as BeigeError).hint).toContain("BEIGE_HOME");
});
