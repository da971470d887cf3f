import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { expect, test } from "vitest";
import { openDoor } from "../../test/fakes/door.ts";

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");

test("the record says where a command runs when that is not the usual place, behind the command itself", async () => {
  await using at = openDoor();
  mkdirSync(at.file("sub"));
  const args = async (params: object): Promise<readonly string[] | undefined> => {
    const { call } = await at.ask("exec", { command: "true", ...params });
    return at.rows.find((row) => row.call === call)?.args;
  };
  expect(await args({ cwd: "sub" })).toEqual(["true", "cwd sub"]);
  expect(await args({ cwd: "/etc", stdin: "x" })).toEqual(["true", "cwd /etc", `stdin sha256 ${sha("x")} bytes 1`]);
  for (const cwd of [undefined, null, "/workspace"]) expect(await args({ cwd })).toEqual(["true"]);
});

/** As it comes from a parser, which nests as deep as the text does. */
const deep = JSON.parse("[".repeat(100_000) + "]".repeat(100_000)) as unknown;
test.each([
  ["exec", { command: deep }],
  ["exec", { command: "true", cwd: deep }],
  ["exec", { command: "true", env: { A: deep } }],
  ["exec", { command: "true", stdin: deep }],
  ["read", { path: deep }],
  ["write", { path: "a", content: deep }],
  ["patch", { path: "a", find: deep, replace: "b" }],
])("parameters that nest without end are refused and recorded like any that do not fit: %s %#", async (tool, params) => {
  await using at = openDoor();
  expect(await at.ask(tool, params)).toMatchObject({ success: false, exitCode: 2 });
  expect(at.rows.map(({ phase }) => phase)).toEqual(["begin", "end"]);
  expect(at.sandbox.requests).toEqual([]);
});

test("a million variables are refused before anybody else has to wait, and their record is short", async () => {
  await using at = openDoor();
  const many = (n: number, name: string) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`${name}${i}`, ""]));
  const env = many(300_000, "a");
  const since = performance.now();
  expect(await at.ask("exec", { command: "true", env })).toMatchObject({ exitCode: 2 });
  expect(performance.now() - since).toBeLessThan(1_000);
  expect(at.rows[0]?.args.join("").length).toBeLessThan(5_000);
  expect(await at.ask("exec", { command: "true", env: many(1, "x".repeat(1_000_000)) })).toMatchObject({ exitCode: 2 });
  expect(at.rows.at(-1)?.args.join("").length).toBeLessThan(300);
});
