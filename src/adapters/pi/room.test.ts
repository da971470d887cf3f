import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { png } from "../../../test/fakes/pictures.ts";
import * as w from "../../../test/llm/world.ts";
import type { AssistantMessage, ChatEvent, LiveSession, SessionOptions } from "../../core/chat.ts";
import { NO_USAGE } from "../../core/usage.ts";
import { createPi } from "../pi.ts";
import { PICTURES_CHARS_MAX } from "./room.ts";

const folder = mkdtempSync(join(tmpdir(), "beige-room-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const message = (content: AssistantMessage["content"], stopReason: "stop" | "toolUse"): AssistantMessage => ({
  role: "assistant",
  content,
  api: "echo",
  provider: "p",
  model: "m",
  usage: { ...NO_USAGE, input: 10, totalTokens: 10 },
  stopReason,
  timestamp: Date.now(),
});
const done = (content: AssistantMessage["content"], stopReason: "stop" | "toolUse"): ChatEvent => ({
  type: "done",
  message: message(content, stopReason),
});
const picture = { type: "image" as const, mimeType: "image/png", data: png(1, 1, 5 * 1024 * 1024).toString("base64") };

test("a conversation that looks at pictures for ever stays one that can be taken up again", { timeout: 60_000 }, async () => {
  const wanted = Math.ceil((2 * PICTURES_CHARS_MAX) / picture.data.length) + 2;
  let asked = 0;
  const options: SessionOptions = {
    folder,
    id: "s1",
    systemPrompt: "You are a test.",
    cwd: "/workspace",
    tools: [
      {
        name: "read",
        description: "",
        parameters: { type: "object" },
        run: async () => ({ text: "[seen]", failed: false, images: [picture] }),
      },
    ],
    thinking: "off",
    model: w.facts("m", { contextWindow: 100_000_000, input: ["text", "image"] }),
    compactAt: 90_000_000,
    async *stream() {
      yield { type: "start" };
      asked += 1;
      yield asked > wanted
        ? done([{ type: "text", text: "enough" }], "stop")
        : done([{ type: "toolCall", id: `t${asked}`, name: "read", arguments: {} }], "toolUse");
    },
  };
  const open = (more: object = {}): Promise<LiveSession> => createPi({ log: w.memoryLog() }).runtime.open({ ...options, ...more });
  const live = await open();
  const never = new AbortController().signal;
  await live.prompt("look", "i1", () => undefined, never);
  expect(asked).toBe(wanted + 1);
  const { size } = statSync(live.file);
  expect(size).toBeGreaterThan(PICTURES_CHARS_MAX - picture.data.length);
  expect(size).toBeLessThan(PICTURES_CHARS_MAX + 1024 * 1024);
  expect(readFileSync(live.file, "latin1")).toContain("[seen]\\n[not shown: this conversation holds 128 MiB of pictures");
  await expect(live.prompt({ text: "and this", images: [picture] }, "i2", () => undefined, never)).rejects.toMatchObject({
    code: "exhausted",
    hint: "start a new session",
  });
  live.dispose();
  const again = await open({ file: live.file });
  expect([again.note, again.inbox.has("i1"), again.inbox.has("i2")]).toEqual([undefined, true, false]);
  asked = wanted;
  expect((await again.prompt("and now", "i3", () => undefined, never)).content).toEqual([{ type: "text", text: "enough" }]);
  again.dispose();
});
