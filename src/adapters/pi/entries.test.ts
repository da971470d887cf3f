import { expect, test } from "vitest";
import { checkEntries } from "./entries.ts";

const entry = (more: object): object => ({ id: "a1", parentId: null, timestamp: "2026-01-01T00:00:00Z", ...more });
const says = (message: object): object => entry({ type: "message", message });
const assistant = (content: unknown): object =>
  says({ role: "assistant", content, provider: "p", model: "m", stopReason: "stop", usage: {} });

test.each([
  says({ role: "user", content: "hi" }),
  says({ role: "user", content: [{ type: "image", data: "AA==", mimeType: "image/png" }] }),
  assistant([
    { type: "thinking", thinking: "hm", thinkingSignature: "s" },
    { type: "text", text: "hi" },
    { type: "toolCall", id: "c", name: "exec", arguments: {} },
  ]),
  says({ role: "toolResult", content: [{ type: "text", text: "x" }], toolCallId: "c", toolName: "exec" }),
  entry({ type: "label", targetId: "a0" }),
  entry({ type: "session_info", name: "words" }),
])("an entry that the loop can read is taken: %j", (given) => {
  expect(checkEntries([given], new Set())).toEqual([given]);
});

test.each([
  says({ role: "user", content: [{ type: "text" }] }),
  says({ role: "user", content: [{ type: "image", data: 5, mimeType: null }] }),
  says({ role: "user", content: [null] }),
  says({ role: "user", content: [{ type: "constructor" }] }),
  says({ role: "constructor", content: "x" }),
  assistant([{ type: "toolCall", id: "c", name: "exec", arguments: null }]),
  assistant([{ type: "toolCall", name: "exec", arguments: {} }]),
  assistant([{ type: "thinking" }]),
  says({ role: "toolResult", content: [{ type: "text", text: 5 }], toolCallId: "c", toolName: "exec" }),
  entry({ type: "label", targetId: "a0", label: 5 }),
  entry({ type: "session_info", name: {} }),
])("an entry that would spoil its conversation for good is refused: %j", (given) => {
  expect(() => checkEntries([given], new Set())).toThrow(/entries\[0\] is not a whole \w+ entry/);
});
