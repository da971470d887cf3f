import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import type { LiveSession, SessionOptions, SessionRuntime } from "../core/chat.ts";
import type { Clock } from "../core/world.ts";
import { createSessionFiles } from "../adapters/pi/transcript.ts";
import { createFeed } from "./feed.ts";
import { createBook, IDLE_MS, type Lent } from "./sessions.ts";
import { createWatchdog, QUIET_MS } from "./watchdog.ts";

/** A clock that moves when it is told to. */
function handClock(): Clock & { pass(ms: number): void } {
  let now = 1_000_000;
  const timers = new Set<{ at: number; run: () => void }>();
  return {
    ...w.clock,
    now: () => now,
    monotonic: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    pass(ms) {
      now += ms;
      for (const timer of timers) {
        if (timer.at > now) continue;
        timers.delete(timer);
        timer.run();
      }
    },
  };
}

function setting(): {
  opened: SessionOptions[];
  disposed: () => number;
  clock: ReturnType<typeof handClock>;
  book: ReturnType<typeof createBook>;
} {
  const opened: SessionOptions[] = [];
  let disposed = 0;
  const runtime: SessionRuntime = {
    files: createSessionFiles(),
    open: (options) => {
      opened.push(options);
      const live: LiveSession = {
        file: options.file ?? `${options.folder}/${options.id}.jsonl`,
        inbox: new Set(),
        prompt: () => Promise.reject(new Error("unused")),
        say: () => false,
        last: () => undefined,
        dispose: () => (disposed += 1),
      };
      return Promise.resolve(live);
    },
  };
  const clock = handClock();
  const book = createBook({
    runtime,
    directory: w.directory([], [w.echoProvider("p", [])]),
    shelf: w.memoryShelf(),
    home: "/home/x/.beige",
    clock,
    random: w.random,
    log: w.memoryLog(),
    packageOf: () => "memory",
    tools: w.tools,
  });
  return { opened, disposed: () => disposed, clock, book };
}
const lent: Lent = {
  stream: () => (async function* () {})(),
  tool: () => () => Promise.resolve({ text: "", failed: false }),
  rejoin: () => Promise.resolve(undefined),
};
const agent = w.agent("dev", [["p", "m"]], { tools: ["note"] });
const ask = (key = "cli:default", inbox = "1", fresh = false): { key: string; inbox: string; fresh: boolean } => ({ key, inbox, fresh });

test("a conversation stays in memory while it is used and leaves it ten minutes later", async () => {
  const at = setting();
  (await at.book.open(agent, ask(), lent)).release();
  at.clock.pass(IDLE_MS - 1);
  const held = await at.book.open(agent, ask(), lent);
  at.clock.pass(IDLE_MS * 3);
  expect([at.opened.length, at.disposed()]).toEqual([1, 0]);
  held.release();
  at.clock.pass(IDLE_MS);
  expect([at.book.inMemory(), at.disposed()]).toEqual([0, 1]);
  (await at.book.open(agent, ask(), lent)).release();
  expect(at.opened[1]?.file).toBe(`/home/x/.beige/sessions/default.dev/${at.opened[0]?.id}.jsonl`);
  expect(at.book.rows(agent.metadata.uid).map((row) => row.key)).toEqual(["cli:default"]);
});

test("a message that starts anew does so once, also when it is taken up after a crash", async () => {
  const at = setting();
  (await at.book.open(agent, ask(), lent)).release();
  (await at.book.open(agent, ask("cli:default", "2", true), lent)).release();
  at.book.close();
  (await at.book.open(agent, ask("cli:default", "2", true), lent)).release();
  expect(at.opened.map((options) => options.file === undefined)).toEqual([true, true, false]);
  expect(at.opened[2]?.id).toBe(at.opened[1]?.id);
});

test("a session that works without a turn is refused, and the prompt names where tools are described", async () => {
  const at = setting();
  const held = await at.book.open(agent, ask(), lent);
  held.release();
  expect(() => at.opened[0]?.stream({ messages: [] }, { thinking: "off" }, new AbortController().signal)).toThrow("without a turn");
  expect(at.opened[0]?.systemPrompt).toContain("- note: read /tools/packages/memory/SKILL.md before its first use");
  expect(at.opened[0]?.cwd).toBe("/workspace");
});

test("closing an agent's sessions leaves those of others", async () => {
  const at = setting();
  (await at.book.open(agent, ask(), lent)).release();
  (await at.book.open(w.agent("other", [["p", "m"]]), ask(), lent)).release();
  at.book.close(agent.metadata.uid);
  expect(at.book.inMemory()).toBe(1);
});

test("the watchdog barks when nothing works for a minute, and never while something does", () => {
  const clock = handClock();
  let barks = 0;
  const dog = createWatchdog(clock, () => (barks += 1));
  clock.pass(QUIET_MS - 1);
  dog.touch();
  clock.pass(QUIET_MS - 1);
  const busy = dog.busy();
  clock.pass(QUIET_MS * 50);
  dog.touch();
  clock.pass(QUIET_MS * 50);
  expect(barks).toBe(0);
  busy[Symbol.dispose]();
  busy[Symbol.dispose]();
  clock.pass(QUIET_MS);
  expect(barks).toBe(1);
  dog.touch();
  dog.stop();
  clock.pass(QUIET_MS * 2);
  expect(barks).toBe(1);
});

test("a feed melts what a slow reader has not read, keeps order, ends once, and refuses what is too much", async () => {
  const feed = createFeed();
  for (let n = 0; n < 50_000; n++) feed.push({ type: "text", delta: "x" });
  feed.push({ type: "thinking", delta: "hm" });
  feed.push({ type: "text", delta: "y" });
  const last = { type: "error", code: "unavailable", message: "first" } as const;
  feed.end(last);
  feed.end({ ...last, message: "second" });
  feed.push({ type: "text", delta: "late" });
  expect(await w.all(feed.events())).toEqual([
    { type: "text", delta: "x".repeat(50_000) },
    { type: "thinking", delta: "hm" },
    { type: "text", delta: "y" },
    last,
  ]);
  const full = createFeed();
  let pushed = 0;
  while (full.push({ type: "tool_start", id: "1", tool: "exec", args: {} })) pushed += 1;
  expect(pushed).toBe(10_000);
  full.end(last);
  expect((await w.all(full.events())).at(-1)).toEqual(last);
});
