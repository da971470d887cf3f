import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
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

test("a command that went on while the gateway was away gives its call the real result, once and for that call only", async () => {
  const at = await killedAfter(upTo('"role":"assistant"'), working());
  const [session = ""] = at.shelf.list("session/").map(({ key }) => key.slice("session/".length));
  const line =
    readFileSync(files(at.home)[0] ?? "", "utf8")
      .trim()
      .split("\n")
      .at(-1) ?? "";
  const { content } = (JSON.parse(line) as { message: { content: readonly { type: string; id: string }[] } }).message;
  const id = content.find(({ type }) => type === "toolCall")?.id ?? "";
  const asked: unknown[] = [];
  const command = { call: "c1", container: "box", timeoutMs: 9000 };
  at.shelf.set(`running/${session}`, JSON.stringify({ ...command, id }));
  const next = rig({
    providers: working(),
    home: at.home,
    shelf: at.shelf,
    rejoin: (agent, wanted) => {
      asked.push([agent.uid, wanted]);
      const error = "command exited with code 3";
      return Promise.resolve({ call: "c1", success: false, output: Buffer.from("real"), exitCode: 3, outcome: "failed", error });
    },
  });
  await next.door.resume();
  await expect.poll(() => next.door.sessions.open(uid), { timeout: 5000 }).toBe(0);
  expect(asked).toStrictEqual([[uid, { ...command, id }]]);
  expect(said(at.home).filter((text) => text.startsWith("toolResult"))).toStrictEqual(["toolResult: real\ncommand exited with code 3"]);
  expect(said(at.home).at(-1)).toBe("assistant: result: real\ncommand exited with code 3");
  expect(at.shelf.list("running/")).toStrictEqual([]);
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

const acceptedIn = (home: string): readonly string[] =>
  existsSync(`${home}/accepted`) ? readFileSync(`${home}/accepted`, "utf8").trim().split("\n") : [];

/** Runs until one or two more messages were accepted, then is killed without a word at some moment of the newest one's turn. */
async function kill9(home: string, round: number): Promise<void> {
  const child = spawn(process.execPath, [join(root, "test/llm/victim.ts"), home, "send", String(round)], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const closed = once(child, "close");
  const wanted = acceptedIn(home).length + 1 + (round % 2);
  while (acceptedIn(home).length < wanted && child.exitCode === null) await pause(2);
  expect(child.exitCode).toBeNull();
  await pause(Math.random() * 90);
  child.kill("SIGKILL");
  await closed;
}

test("killed at random moments, a gateway loses no accepted message and doubles none", async () => {
  const home = newHome();
  for (let round = 0; round < 8; round++) await kill9(home, round);
  expect(await run([join(root, "test/llm/victim.ts"), home, "drain"])).toBe("idle\n");
  const heard = said(home);
  const users = heard.filter((line) => line.startsWith("user: ")).map((line) => line.slice(6));
  const accepted = acceptedIn(home);
  expect(accepted.length).toBeGreaterThanOrEqual(12);
  expect(users.length).toBe(new Set(users).size);
  expect(accepted.filter((text) => !users.includes(text))).toEqual([]);
  // Every message has one answer and one tool result before the next message.
  const turns = heard.join("\n").split("user: ").slice(1);
  for (const turn of turns) {
    expect([turn, turn.match(/assistant: answered/g)?.length, turn.match(/toolResult: /g)?.length]).toEqual([turn, 1, 1]);
  }
}, 300_000);
