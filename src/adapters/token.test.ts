import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import { systemRandom } from "./random.ts";
import { operatorToken } from "./token.ts";

let home = "";
beforeEach(() => (home = mkdtempSync(join(tmpdir(), "beige-token-"))));
afterEach(() => rmSync(home, { recursive: true, force: true }));
const path = (): string => join(home, "token");

test("a token is made once, for the operator's eyes only, and kept", () => {
  const token = operatorToken(home, systemRandom);
  expect(token).toMatch(/^[0-9a-f]{64}$/);
  expect(statSync(path()).mode & 0o777).toBe(0o600);
  expect(operatorToken(home, systemRandom)).toBe(token);
  expect(readdirSync(home)).toStrictEqual(["token"]);
});

test("one that others could read is closed again", () => {
  const token = "t".repeat(40);
  writeFileSync(path(), `${token}\n`, { mode: 0o644 });
  expect(operatorToken(home, systemRandom)).toBe(token);
  expect(statSync(path()).mode & 0o777).toBe(0o600);
});

test.each([
  ["nothing", ""],
  ["a line's end", "\n"],
  ["half a token", "0f3a"],
  ["two words", `${"a".repeat(40)} ${"b".repeat(40)}\n`],
  ["NUL bytes", "\0".repeat(64)],
])("a file with %s in it is no token: a new one takes its place", (_name, text) => {
  writeFileSync(path(), text);
  const token = operatorToken(home, systemRandom);
  expect(token).toMatch(/^[0-9a-f]{64}$/);
  expect(readFileSync(path(), "utf8")).toBe(`${token}\n`);
  expect(statSync(path()).mode & 0o777).toBe(0o600);
});

test("what cannot be read or written says so", () => {
  mkdirSync(path());
  expect(() => operatorToken(home, systemRandom)).toThrow(BeigeError);
  expect(() => operatorToken(join(home, "absent"), systemRandom)).toThrow(/cannot be written/);
});
