import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import { cappedWire, longestAnswer } from "./models.ts";

const model = w.facts("m", { maxTokens: 1000 });
const candidate = { provider: w.provider("a", { api: "openai-completions", models: [model] }), model };
const wire = (body: object) => ({ api: "openai-completions", body: body as Record<string, unknown>, stream: true }) as const;

test.each([
  [{}, 1000],
  [{ max_tokens: 10 }, 10],
  [{ max_tokens: "10" }, 10],
  [{ max_tokens: 10, max_completion_tokens: 20 }, 20],
  [{ max_tokens: 10, n: 5 }, 50],
  [{ max_tokens: 10, n: "5" }, 50],
  [{ max_tokens: 10, best_of: 8, n: 2 }, 80],
  // Fewer answers than one cannot be had.
  [{ max_tokens: 10, n: 0.001 }, 10],
  [{ max_tokens: -5, n: -3 }, 1000],
  [{ max_tokens: null, n: {} }, 1000],
])("a budget is asked for the most that %j may cost", (body, tokens) => {
  expect(longestAnswer(wire(body), model)).toBe(tokens);
});

test("a length in quotes is capped as one without", () => {
  expect(cappedWire(wire({ max_tokens: "999999" }), candidate).body).toEqual({ max_tokens: 1000 });
  expect(cappedWire(wire({ max_tokens: "999" }), candidate).body).toEqual({ max_tokens: "999" });
});
