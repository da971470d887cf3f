import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ADOPT, adoptText } from "../core/adoption.ts";
import type { Agent } from "../core/resource.ts";
import { leftSession } from "./left.ts";

const UID = "a1b2c3d4-e5f6-4708-890a-0b0c0d0e0f10";
const HASH = "0123456789abcdef";
let home = "";
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-left-"));
  mkdirSync(join(home, "sessions/default.travel"), { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const agent = (annotations: object, uid = UID): Agent =>
  ({ metadata: { name: "travel", namespace: "default", uid, annotations } }) as unknown as Agent;
const adopted = { [ADOPT]: adoptText("0f0e0d0c-0b0a-4908-8706-050403020100", UID) };
const put = (...names: string[]): void => names.forEach((name) => writeFileSync(join(home, "sessions/default.travel", name), ""));

test("the newest conversation of a key is found for the agent that took the container over, and for no other", async () => {
  put(`${HASH}-zzz-00000001.jsonl`, `${HASH}-1000-00000002.jsonl`, "fedcba9876543210-zzzz-00000003.jsonl", `${HASH}-zzzzz-x.jsonl`, "odd");
  const id = `${HASH}-1000-00000002`;
  expect(await leftSession(home, agent(adopted), HASH)).toEqual({ id, file: join(home, `sessions/default.travel/${id}.jsonl`) });
  expect(await leftSession(home, agent({}), HASH)).toBeUndefined();
  expect(await leftSession(home, agent(adopted, "another"), HASH)).toBeUndefined();
  expect(await leftSession(home, agent({ [ADOPT]: "old-box" }), HASH)).toBeUndefined();
});

test("without a folder and without a file there is nothing", async () => {
  expect(await leftSession(home, agent(adopted), HASH)).toBeUndefined();
  rmSync(join(home, "sessions"), { recursive: true });
  expect(await leftSession(home, agent(adopted), HASH)).toBeUndefined();
});
