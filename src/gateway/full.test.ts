import { expect, test } from "vitest";
import type { CallRequest } from "../core/call.ts";
import type { Agent } from "../core/resource.ts";
import { refusedForRoom } from "./full.ts";

const agent = (disk?: string): Agent =>
  ({
    metadata: { namespace: "default", name: "a" },
    spec: { sandbox: { resources: disk === undefined ? {} : { disk } } },
  }) as Agent;
const call = (tool: string, params: object, kind = "agent"): CallRequest =>
  ({ tool, input: { params }, principal: { kind } }) as CallRequest;
const exec = (command: string): CallRequest => call("exec", { command });
const OVER = { bytes: (1 << 20) + 1, entries: 1, whole: true };
const refused = (request: CallRequest, use = OVER, of = agent("1Mi")): boolean => refusedForRoom(of, use, request) !== undefined;

test("above the limit an agent reads and makes room, and does nothing else", () => {
  for (const request of [call("write", { path: "x" }), call("patch", { path: "x" }), exec("make"), exec("echo x >y")])
    expect([request.input, refused(request)]).toStrictEqual([request.input, true]);
  for (const request of [call("read", { path: "x" }), exec("rm -rf build/*.o"), exec(" du -sh . "), exec("ls -la"), exec("rmdir a b")])
    expect([request.input, refused(request)]).toStrictEqual([request.input, false]);
});

test("what only begins like making room is refused", () => {
  const tricks = [
    "rm x; make",
    "rm x\nmake",
    "rm x && make",
    "rm $(make)",
    "rm `make`",
    "ls >x",
    "ls | tee x",
    "rm 'x' & make",
    "rmx",
    "rm x\r\nmake",
    "./rm x",
    "X=1 rm x",
    "du <(make)",
    "rm x # \nmake",
  ];
  expect(tricks.filter((command) => !refused(exec(command)))).toStrictEqual([]);
});

test("a harmless word with variables, input or a life of its own is none", () => {
  const ls = { command: "ls -la" };
  for (const more of [
    { env: { PATH: "/workspace/bin" } },
    { env: { LD_PRELOAD: "/workspace/x.so" } },
    { env: {} },
    { stdin: "x" },
    { background: true },
  ])
    expect([more, refused(call("exec", { ...ls, ...more }))]).toStrictEqual([more, true]);
  for (const more of [{}, { cwd: "sub" }, { timeout: 5 }, { env: null, stdin: null, background: null }, { background: false }])
    expect([more, refused(call("exec", { ...ls, ...more }))]).toStrictEqual([more, false]);
});

test("people are let through, and so is everybody at the limit, without one, and before the first look", () => {
  expect(refused(call("exec", { command: "make" }, "operator"))).toBe(false);
  expect(refused(exec("make"), { ...OVER, bytes: 1 << 20 })).toBe(false);
  expect(refused(exec("make"), OVER, agent())).toBe(false);
  expect(refusedForRoom(agent("1Mi"), undefined, exec("make"))).toBeUndefined();
});

test("the refusal says how much it is, what is allowed and how to go on", () => {
  const text = refusedForRoom(agent("1Mi"), { ...OVER, whole: false }, exec("make"));
  expect(text).toBe(
    "the workspace of a takes at least 2Mi, and sandbox.resources.disk allows 1Mi: remove files with a plain rm (du, ls and read work too), then try again",
  );
});

test("what cannot be measured is too much: nobody hides anything below folders without end", () => {
  const deep = { bytes: 4096, entries: 129, whole: false, beyond: "folders in more than 128 others" };
  expect([refused(exec("make"), deep), refused(exec("rm -rf d"), deep), refused(exec("make"), deep, agent())]).toEqual([
    true,
    false,
    false,
  ]);
  expect(refusedForRoom(agent("1Mi"), deep, exec("make"))).toMatch(
    /^the workspace of a takes at least 1Mi and has folders in more than 128 others, /,
  );
});
