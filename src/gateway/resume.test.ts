import { spawn } from "node:child_process";
import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { answer, cleanHomes, files, folder, inbox, newHome, rig, said, uid, type Rig } from "../../test/llm/rig.ts";
import * as w from "../../test/llm/world.ts";
import type { Provider } from "../core/resource.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
afterEach(cleanHomes);

/** Leaves a home as a process does that is killed once `cut` of its file's lines are written. */
async function killedAfter(cut: (lines: readonly string[]) => number, providers: Provider[]): Promise<Rig> {
  const first = rig({ providers });
  let row: { key: string; value: string } | undefined;
  for await (const event of first.ask("work")) if (event.type === "session") row = first.shelf.list("inbox/")[0];
  await first.door.stop();
  const path = files(first.home)[0] ?? "";
  const lines = readFileSync(path, "utf8").trim().split("\n");
  writeFileSync(
    path,
    lines
      .slice(0, cut(lines))
      .map((line) => `${line}\n`)
      .join(""),
  );
  if (row !== undefined) first.shelf.set(row.key, row.value);
  return rig({ providers, home: first.home, shelf: first.shelf });
}
const working = (): Provider[] => [
  w.echoProvider("p", [
    { match: "work", toolCall: { tool: "exec", args: { command: "id" } } },
    { match: ".", from: "tool", text: "result: $0" },
  ]),
];
const upTo =
  (word: string) =>
  (lines: readonly string[]): number =>
    lines.findIndex((line) => line.includes(word)) + 1;

test.each([
  ["before its message was in the file", upTo("thinking_level_change"), "result: ran"],
  ["between the inbox entry and the message", upTo("beige.inbox"), "result: ran"],
  ["after the message", upTo('"role":"user"'), "result: ran"],
  ["while the tool ran", upTo('"role":"assistant"'), "result: interrupted"],
  ["after the tool's result", upTo('"role":"toolResult"'), "result: ran"],
  ["after the answer", (lines: readonly string[]) => lines.length, "result: ran"],
])("a turn that was cut %s is taken up: one message, one answer", async (_, cut, expected) => {
  const at = await killedAfter(cut, working());
  await at.door.resume();
  await expect.poll(() => at.door.sessions.open(uid), { timeout: 5000 }).toBe(0);
  const heard = said(at.home);
  expect(heard.filter((line) => line.startsWith("user:"))).toEqual(["user: work"]);
  expect(heard.filter((line) => line.startsWith("toolResult:")).length).toBe(1);
  expect(heard.filter((line) => line.startsWith("assistant: result"))).toEqual([expect.stringContaining(expected) as string]);
  expect(heard.at(-1)).toContain("assistant: result");
  expect(inbox(at)).toEqual([]);
  expect(answer(await at.say("next"))).toBe("next");
});

test("a session whose file is gone starts anew once, and says so (P101)", async () => {
  const at = rig();
  await at.say("one");
  await at.door.stop();
  rmSync(folder(at.home), { recursive: true });
  const next = rig({ home: at.home, shelf: at.shelf });
  expect(answer(await next.say("two"))).toBe("two");
  expect(next.log.lines.map((line) => line.message)).toEqual(["session repaired"]);
  expect(at.shelf.list("session/")[0]?.value).toContain("was missing");
  await next.door.stop();
  const third = rig({ home: at.home, shelf: at.shelf });
  await third.say("three");
  expect(third.log.lines).toEqual([]);
});

test("a file with a torn line, garbage inside or garbage for a file is mended or put aside, and the session goes on", async () => {
  const at = rig();
  await at.say("one");
  await at.door.stop();
  const path = files(at.home)[0] ?? "";
  const damage: [string, () => void, string][] = [
    ["torn", () => appendFileSync(path, Buffer.from('{"type":"message","id":"x","mess\xc3', "latin1")), "half-written"],
    ["inside", () => writeFileSync(path, readFileSync(path, "utf8").replace('{"type":"thinking', '\0\0{"type":"thinking')), "unreadable"],
    ["whole", () => writeFileSync(path, "\0".repeat(5000)), "not a session file"],
    ["empty", () => writeFileSync(path, ""), "empty"],
  ];
  for (const [name, break_, note] of damage) {
    break_();
    const next = rig({ home: at.home, shelf: at.shelf });
    expect(answer(await next.say(name))).toBe(name);
    expect(JSON.stringify(next.log.lines)).toContain(note);
    await next.door.stop();
    if (name === "inside") expect(said(at.home).slice(0, 2)).toEqual(["user: one", "assistant: one"]);
  }
  expect(files(at.home).filter((file) => file.includes(".bad-")).length).toBe(3);
});

function run(args: readonly string[]): Promise<string> {
  return new Promise((end, fail) => {
    const child = spawn(process.execPath, [...args], { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (part: Buffer) => (out += part.toString()));
    child.on("error", fail);
    child.on("close", () => end(out));
  });
}

/** Runs until it has sent for a while, then is killed without a word. */
function kill9(home: string, round: number): Promise<void> {
  return new Promise((end, fail) => {
    const child = spawn(process.execPath, [join(root, "test/llm/victim.ts"), home, "send", String(round)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    child.stdout.once("data", () => setTimeout(() => child.kill("SIGKILL"), round === 0 ? 900 : 150 + Math.random() * 500));
    child.on("error", fail);
    child.on("close", () => end());
  });
}

test("killed at random moments, a gateway loses no accepted message and doubles none", async () => {
  const home = newHome();
  for (let round = 0; round < 12; round++) await kill9(home, round);
  expect(await run([join(root, "test/llm/victim.ts"), home, "drain"])).toBe("idle\n");
  const heard = said(home);
  const users = heard.filter((line) => line.startsWith("user: ")).map((line) => line.slice(6));
  const accepted = readFileSync(`${home}/accepted`, "utf8").trim().split("\n");
  expect(accepted.length).toBeGreaterThan(8);
  expect(users.length).toBe(new Set(users).size);
  expect(accepted.filter((text) => !users.includes(text))).toEqual([]);
  // Every message has one answer and one tool result before the next message.
  const turns = heard.join("\n").split("user: ").slice(1);
  for (const turn of turns) {
    expect([turn, turn.match(/assistant: answered/g)?.length, turn.match(/toolResult: /g)?.length]).toEqual([turn, 1, 1]);
  }
}, 120_000);
