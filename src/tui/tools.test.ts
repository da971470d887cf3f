// What the gateway answered of a tool, as the SDK takes it.
import { expect, test } from "vitest";
import { png } from "../../test/fakes/pictures.ts";
import type { SessionLoop } from "../core/session.ts";
import { createGateway, type Client } from "./gateway.ts";
import { createScreen } from "./screen.ts";
import { toolsOf } from "./tools.ts";

const image = { type: "image", mimeType: "image/png", data: png().toString("base64") };
const name = { type: "text", text: "[i.png is a picture: image/png, 69 bytes]" };

async function reading(input: readonly string[]) {
  const asked: unknown[] = [];
  const answer = { content: [name, image], exitCode: 0, success: true };
  const client = { get: (ask: { readonly body: unknown }) => (asked.push(ask.body), Promise.resolve(answer)) } as unknown as Client;
  const loop = { tools: [{ name: "read", description: "", parameters: {} }] } as unknown as SessionLoop;
  const [read] = toolsOf(createGateway(client), () => ({ agent: "a", session: "tui:1" }), { loop, screen: createScreen() });
  const context = { model: { input } } as never;
  return { result: await read?.execute("c1", { path: "i.png" }, undefined, undefined, context), asked };
}

test("a picture that a tool read goes to a model that reads images, and no other", async () => {
  const { result, asked } = await reading(["text", "image"]);
  expect(result?.content).toEqual([name, image]);
  expect(asked).toEqual([{ tool: "read", params: { path: "i.png" }, session: "tui:1" }]);
  expect((await reading(["text"])).result?.content).toEqual([
    { type: "text", text: `${name.text}\n[not shown: this model reads no images]` },
  ]);
});
