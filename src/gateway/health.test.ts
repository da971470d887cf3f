// What of a model's health is news to whoever shows it.
import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import { createHealth } from "./health.ts";
import { createLimiter } from "./limiter.ts";

test("a crowd of failures is told once, an answer after it once, each cooldown once, and a usual answer never", () => {
  const told: string[] = [];
  const [shelf, directory] = [w.memoryShelf(), w.directory([], [])];
  const health = createHealth({ shelf, clock: w.clock, limiter: createLimiter(w.clock), directory, onHealth: (name) => told.push(name) });
  for (const _ of [1, 2, 3]) health.answered("a", "m");
  expect(told).toEqual([]);
  for (const _ of [1, 2, 3]) health.failed("a", "m", { message: "overloaded" });
  expect(told.splice(0)).toEqual(["a"]);
  for (const _ of [1, 2, 3]) health.failed("a", "m", { message: "429", coolMs: 60_000 });
  expect(told.splice(0)).toEqual(["a"]);
  for (const _ of [1, 2]) health.failed("b", "m", { message: "429", coolMs: 60_000 });
  expect(told.splice(0)).toEqual(["b"]);
  health.failed("c", "m", { message: "oops" });
  for (const _ of [1, 2]) health.answered("c", "m");
  expect(told.splice(0)).toEqual(["c", "c"]);
});
