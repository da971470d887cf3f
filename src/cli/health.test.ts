import { afterEach, expect, test } from "vitest";
import { json, stand, type Stand } from "./harness.ts";

let at: Stand | undefined;
afterEach(() => at?.close());

test("export health has the shape of provider-health.json: by provider and model, what is skipped until when", async () => {
  const items = [
    { provider: "anthropic", model: "claude", failures: 0 },
    { provider: "zai", model: "glm", failures: 2, coolingUntil: "2026-03-05T01:00:00.000Z", lastError: "429 slow down" },
  ];
  at = await stand({ "GET /api/providers/health": ({ response }) => json(response, { items }) });
  const all = await at.run(["export", "health"]);
  expect([all.code, all.err]).toEqual([0, ""]);
  const zai = { "zai/glm": { consecutiveFailures: 2, retryAfter: "2026-03-05T01:00:00.000Z", lastError: "429 slow down" } };
  expect(JSON.parse(all.out)).toEqual({ "anthropic/claude": { consecutiveFailures: 0 }, ...zai });
  expect(JSON.parse((await at.run(["export", "health", "zai"])).out)).toEqual(zai);
  const wrong = await at.run(["export", "health", "anthropc"]);
  expect(wrong).toMatchObject({ code: 1, out: "", err: expect.stringContaining('did you mean "anthropic"?') });
});
