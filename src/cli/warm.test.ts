import { expect, test } from "vitest";
import { warmFindings, warmText } from "./warm.ts";

const levels = [
  { image: "a:1", wanted: 2, ready: 2 },
  { image: "a:1", wanted: 1, ready: 0, problem: "no room" },
  { image: "b:1", wanted: 1, ready: 1 },
];

test("sandboxes that wait are summed in words, and entries of one image are told apart", () => {
  expect(warmText({ warm: { levels, waiting: [] } })).toBe("3 of 4 sandboxes wait for an agent");
  expect(warmFindings({ warm: { levels } }).map(({ state, message }) => [state, message])).toEqual([
    ["ok", "2 of 2 sandboxes of a:1 (entry 1) wait for an agent"],
    ["warning", "0 of 1 sandboxes of a:1 (entry 2) wait for an agent: no room"],
    ["ok", "1 of 1 sandboxes of b:1 wait for an agent"],
  ]);
});

test("where host.yaml asks for none, nothing is said", () => {
  for (const health of [undefined, {}, { warm: { levels: [], waiting: [] } }])
    expect([warmText(health), warmFindings(health)]).toEqual([undefined, []]);
});
