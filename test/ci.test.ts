// The workflows under docs/ci: their scripts run as they are written, against a service that keeps comments.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { parseInput, findVerb } from "../src/cli/parse.ts";
import { verbs } from "../src/cli/verbs.ts";
import { type Kept, load, service as serve, type Service, texts } from "./comments.ts";

const script = (name: string): string =>
  texts(load(name))
    .map((text) => /<<'END'\n([\s\S]*?)\nEND\n/.exec(text)?.[1])
    .find((found) => found !== undefined) ?? "";

let server: { close(): void } | undefined;
const scratch: string[] = [];
afterEach(() => {
  server?.close();
  for (const path of scratch.splice(0)) rmSync(path, { recursive: true, force: true });
});

async function service(comments: Kept[]): Promise<Service> {
  const made = await serve(comments);
  server = made;
  return made;
}

async function comment(name: string, url: string, body: string): Promise<number | null> {
  const cwd = mkdtempSync(join(tmpdir(), "beige-ci-"));
  scratch.push(cwd);
  writeFileSync(join(cwd, "comment.md"), body);
  writeFileSync(join(cwd, "run.mjs"), script(name));
  const env = {
    GITHUB_API_URL: url,
    GITHUB_REPOSITORY: "a/b",
    GITHUB_TOKEN: "t",
    NUMBER: "7",
    CI_API_V4_URL: url,
    CI_PROJECT_ID: "3",
    CI_MERGE_REQUEST_IID: "7",
    BEIGE_CI_TOKEN: "t",
  };
  return new Promise((done) => spawn(process.execPath, ["run.mjs"], { cwd, env, stdio: "inherit" }).on("close", done));
}

const PLAN = "<!-- beige-diff stacks -->\n**beige**: 1 updated\n\ndetails\n";
const NONE = "<!-- beige-diff stacks -->\n**beige**: no changes, 4 unchanged\n";
const others = (n: number): Kept[] => Array.from({ length: n }, (_, i) => ({ id: i + 1, body: "hello", user: { type: "User" } }));

test.each(["github.yml", "gitlab.yml"])("%s comments once, updates its comment, and leaves it alone when nothing changed", async (name) => {
  const comments = others(230);
  const { url, writes } = await service(comments);
  expect(await comment(name, url, NONE)).toBe(0);
  expect(writes).toEqual([]);
  expect(await comment(name, url, PLAN)).toBe(0);
  expect(await comment(name, url, PLAN)).toBe(0);
  expect(writes).toEqual(["POST new"]);
  expect(await comment(name, url, PLAN.replace("1 updated", "2 updated"))).toBe(0);
  expect(await comment(name, url, NONE)).toBe(0);
  expect(writes).toEqual(["POST new", name === "github.yml" ? "PATCH 900" : "PUT 900", name === "github.yml" ? "PATCH 900" : "PUT 900"]);
  expect(comments.filter((each) => each.body.startsWith("<!--"))).toEqual([{ id: 900, body: NONE.trimEnd(), user: { type: "Bot" } }]);
});

test("on GitHub a person who writes the marker is not taken for the bot", async () => {
  const { url, writes } = await service([{ id: 5, body: PLAN, user: { type: "User" } }]);
  await comment("github.yml", url, PLAN.replace("1 updated", "3 updated"));
  expect(writes).toEqual(["POST new"]);
});

test("a service that refuses fails the job", async () => {
  const refuses = createServer((_, response) => response.writeHead(403).end("no"));
  server = refuses;
  await new Promise<void>((done) => refuses.listen(0, "127.0.0.1", done));
  expect(await comment("gitlab.yml", `http://127.0.0.1:${(refuses.address() as AddressInfo).port}`, PLAN)).not.toBe(0);
});

test.each(["github.yml", "gitlab.yml"])("every command of beige in %s is one that this version has, with these flags", (name) => {
  const lines = texts(load(name)).flatMap((text) =>
    [...text.matchAll(/npx --yes beige ([^>|&\n]*)/g)].map((match) => (match[1] ?? "").trim()),
  );
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    const argv = line.split(/\s+/).map((word) => word.replaceAll('"', ""));
    const found = findVerb(argv, verbs);
    expect(found, line).toBeDefined();
    if (found) parseInput(found.verb, argv.slice(found.used));
  }
});
