import fc from "fast-check";
import { expect, test } from "vitest";
import { guessed, jsonBytes, reserved } from "./estimate.ts";
import { NO_USAGE } from "./usage.ts";

test("the length of a value is about that of its JSON, and never far below it", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      // Escapes are counted as what they stand for.
      const plain = Buffer.byteLength(text.replace(/\\(u[0-9a-f]{4}|.)/g, "x"));
      return jsonBytes(value) >= plain / 2 && jsonBytes(value) <= Buffer.byteLength(text) * 3 + 5;
    }),
  );
  const chat = { model: "m", messages: [{ role: "user", content: "words and words ".repeat(1000) }] };
  expect(jsonBytes(chat) / JSON.stringify(chat).length).toBeCloseTo(1, 2);
});

test("an image weighs what it costs, in each format, and text that looks like one weighs as text", () => {
  const data = "A".repeat(4_000_000);
  for (const part of [
    { type: "image", mimeType: "image/png", data },
    { type: "image", source: { type: "base64", media_type: "image/png", data } },
    { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
    { type: "input_image", image_url: `data:image/png;base64,${data}` },
  ])
    expect(jsonBytes({ messages: [{ content: [part] }] })).toBeLessThan(5000);
  expect(jsonBytes({ content: [{ type: "text", text: `data:image/png;base64,${data}` }] })).toBeGreaterThan(4_000_000);
});

test("a value that is nested without end takes no stack", () => {
  let deep: unknown = "x";
  for (let n = 0; n < 200_000; n++) deep = [deep];
  expect(jsonBytes(deep)).toBeGreaterThan(200_000);
});

const price = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };

test("a reservation covers whatever the request can come to; without a price it has no dollars", () => {
  expect(reserved({ input: 100, output: 50 }, undefined)).toEqual({ tokens: 150 });
  const count = fc.integer({ min: 0, max: 1_000_000 });
  fc.assert(
    fc.property(count, count, fc.double({ min: 0, max: 1, noNaN: true }), (input, output, share) => {
      const written = Math.floor(input * share);
      const real = (written * price.cacheWrite + (input - written) * price.input + output * price.output) / 1e6;
      return (reserved({ input, output }, price).usd ?? 0) >= real - 1e-9;
    }),
  );
});

test("what was told counts, what was not is guessed", () => {
  const guess = { input: 100, output: 50 };
  expect(guessed(NO_USAGE, guess, price)).toMatchObject({ input: 100, output: 50, totalTokens: 150 });
  expect(guessed({ ...NO_USAGE, input: 7, cacheRead: 3, output: 1 }, guess, price)).toMatchObject({
    input: 7,
    cacheRead: 3,
    output: 50,
    totalTokens: 60,
  });
  expect(guessed({ ...NO_USAGE, output: 80 }, guess, undefined)).toMatchObject({ input: 100, output: 80, cost: { total: 0 } });
});
