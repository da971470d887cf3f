// A picture that an agent reads, from its file to the bytes that a provider is sent.
import { writeFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { openDoor } from "../../test/fakes/door.ts";
import { png } from "../../test/fakes/pictures.ts";
import { SPOKEN, type Api } from "../../test/llm/formats.ts";
import { cleanHomes, entries, answer, rig } from "../../test/llm/rig.ts";
import { answerWith, startWire } from "../../test/llm/wire.ts";
import * as w from "../../test/llm/world.ts";
import { coreToolSchemas } from "./tools.ts";

afterEach(cleanHomes);
const data = png(2, 2).toString("base64");
const SENTENCE = "[i.png is a picture: image/png, 69 bytes]";

interface Sent {
  readonly messages: readonly { readonly role: string; readonly content: readonly unknown[] }[];
  readonly input: readonly unknown[];
}

async function turn(api: Api, input: readonly ("text" | "image")[]) {
  const { base, tool, text } = SPOKEN[api];
  await using wire = await startWire((response, asked) => {
    const first = !JSON.stringify(asked.body).includes("i.png is a picture");
    return answerWith(first ? tool("read", { path: "i.png" }) : text(["seen"]))(response, asked);
  });
  await using at = openDoor();
  writeFileSync(at.file("i.png"), png(2, 2));
  const provider = w.provider("p", {
    api,
    baseUrl: `${wire.origin}${base}`,
    apiKey: { secret: "k" },
    models: [w.facts("m", { input: [...input] })],
  });
  const turns = rig({
    providers: [provider],
    call: ({ tool: name, input: given }, signal) => at.ask(name, "params" in given ? given.params : {}, {}, signal),
    tools: coreToolSchemas,
  });
  expect(answer(await turns.say("look"))).toBe("seen");
  const result = entries(turns.home).find(({ message }) => message?.role === "toolResult");
  return { body: wire.asked.at(-1)?.body as unknown as Sent, content: result?.message?.content };
}

test("anthropic-messages: the picture is an image block of the tool's result, and so in the session's file", async () => {
  const { body, content } = await turn("anthropic-messages", ["text", "image"]);
  expect(content).toEqual([
    { type: "text", text: SENTENCE },
    { type: "image", mimeType: "image/png", data },
  ]);
  const [result] = body.messages.at(-1)?.content ?? [];
  expect(result).toMatchObject({
    type: "tool_result",
    content: [
      { type: "text", text: SENTENCE },
      { type: "image", source: { type: "base64", media_type: "image/png", data } },
    ],
  });
});

test("openai-completions takes none in a tool's result: it comes right behind it, as the user's", async () => {
  const { body } = await turn("openai-completions", ["text", "image"]);
  const [result, shown] = body.messages.slice(-2);
  expect(result).toMatchObject({ role: "tool", content: SENTENCE });
  expect(shown?.role).toBe("user");
  expect(shown?.content.at(-1)).toEqual({ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } });
});

test("openai-responses: the picture is a part of the function's output", async () => {
  const { body } = await turn("openai-responses", ["text", "image"]);
  expect(JSON.stringify(body.input.at(-1))).toContain(`data:image/png;base64,${data}`);
});

test.each(["anthropic-messages", "openai-completions"] as const)(
  "%s: a model that reads no images is told so, and its session does not carry them",
  async (api) => {
    const { body, content } = await turn(api, ["text"]);
    expect(content).toEqual([{ type: "text", text: `${SENTENCE}\n[not shown: this model reads no images]` }]);
    expect(JSON.stringify(body)).not.toContain(data);
    expect(JSON.stringify(body)).toContain("not shown: this model reads no images");
  },
);
