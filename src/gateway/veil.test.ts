import fc from "fast-check";
import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import { roadTo, serve, textOf } from "../../test/road/provider.ts";
import { withoutPart } from "./veil.ts";

const key = "sk-planted-4711-abcdef";

const frame = (more: object): string => `data: ${JSON.stringify({ choices: [{ index: 0, finish_reason: null, delta: {}, ...more }] })}\n\n`;
const bodies = {
  streamed: `${frame({ delta: { content: `my key is ${key}` } })}${frame({ finish_reason: "stop" })}data: [DONE]\n\n`,
  whole: JSON.stringify({ choices: [{ index: 0, message: { content: `${key} ${key}` }, finish_reason: "stop" }] }),
};
const answers = (body: string) =>
  serve(
    (response) =>
      void response.writeHead(200, { "content-type": body === bodies.whole ? "application/json" : "text/event-stream" }).end(body),
  );
const roadWith = (url: string) =>
  roadTo([], {
    secrets: w.memorySecrets({ key }),
    providers: [w.provider("a", { api: "openai-completions", baseUrl: url, apiKey: { secret: "key" }, models: [w.facts("m")] })],
  });

test.each(["streamed", "whole"] as const)("a %s answer that repeats the key goes on without it, and as long as it was", async (how) => {
  await using server = await answers(bodies[how]);
  const road = roadWith(server.url);
  const wire = { api: "openai-completions", body: { messages: [] }, stream: how === "streamed" } as const;
  const events = await road.run(road.bare({ wire }));
  expect(server.asked[0]?.headers.authorization).toBe(`Bearer ${key}`);
  expect(events.at(-1)?.type).toBe("done");
  expect(textOf(events)).toBe(bodies[how].replaceAll(key, "*".repeat(key.length)));
});

test("what is translated, and kept in a session, is without it too", async () => {
  await using server = await answers(bodies.streamed);
  const road = roadWith(server.url);
  const { wire: _none, ...request } = road.bare();
  const events = await road.run(request);
  expect(events.at(-1)).toMatchObject({ type: "done", message: { content: [{ text: `my key is ${"*".repeat(key.length)}` }] } });
  expect(JSON.stringify(events)).not.toContain(key);
});

test("words that were cut within the key tell no part of it that is worth having", () => {
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 8, max: key.length }), fc.string(), (before, size, after) => {
      const told = withoutPart(`${before}${key.slice(0, size)}${after}`, key);
      expect(told).not.toContain(key.slice(0, 8));
      expect(told).toContain("[secret]");
    }),
  );
  expect(withoutPart("no such key sk-planted, and nothing else", key)).toBe("no such key [secret], and nothing else");
  expect(withoutPart("short abcd", "abcd")).toBe("short [secret]");
});
