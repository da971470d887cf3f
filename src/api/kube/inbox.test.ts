import { expect, test } from "vitest";
import { Inbox } from "./inbox.ts";

test("small pieces count for what they cost, and all of them arrive in order", async () => {
  const said: string[] = [];
  const inbox = new Inbox({ pause: () => said.push("pause"), resume: () => said.push("resume") });
  let sent = 0;
  while (said.length === 0) inbox.push(Uint8Array.of(sent++ & 255));
  expect(sent).toBeLessThan(2000);
  inbox.push(Uint8Array.of(sent++ & 255));
  expect(said).toEqual(["pause"]);
  let got = 0;
  for await (const [byte] of inbox.chunks()) {
    expect(byte).toBe(got++ & 255);
    if (got === sent) queueMicrotask(() => inbox.end());
  }
  expect(got).toBe(sent);
  expect(said).toEqual(["pause", "resume"]);
});
