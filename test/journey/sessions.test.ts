// Conversations through a real gateway and the command line: two at once, steering, commands, settings over a kill, export, search, deletion.
import { tmpdir } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, pause, until } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: one}
spec:
  api: echo
  echo: {steps: [{match: slow, delayMs: 2500, text: one slow}, {match: for ever, delayMs: 60000, text: late}, {match: ., text: one}]}
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: two}
spec:
  api: echo
  echo: {steps: [{match: ., text: two}]}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: one, id: m}
  fallbacks: [{provider: two, id: n}]
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

// Sessions need no sandbox until a tool is called.
const gateway = makeGateway({ env: { DOCKER_HOST: `unix://${tmpdir()}/no-engine.sock` } });
beforeAll(async () => {
  await gateway.start();
  await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder: gateway.home, text: STACK }], wait: false });
}, 60_000);
afterAll(() => gateway.clean());

const say = (text: string, session = "cli:default") => gateway.stream("/api/agents/a/prompt", { text, session });
const last = (events: readonly { type: string; text?: string; provider?: string }[]) => {
  const end = events.at(-1);
  return end?.type === "done" ? `${end.provider}: ${end.text}` : JSON.stringify(end);
};

test("two prompts at once on one session are both answered, in order, on the right model", async () => {
  const first = say("slow");
  await until(async () => (await gateway.request("GET", "/api/agents/a/sessions")).body.sessions[0]?.running, 5000, "it runs");
  expect((await gateway.beige("session", "set", "a", "--model", "two/n")).out).toBe("model two/n, thinking off, verbose off\n");
  const second = say("second");
  expect([last(await first), last(await second)]).toEqual(["one: one slow", "two: two"]);
  const shown = (await gateway.beige("session", "show", "a")).out;
  expect(shown.indexOf("one slow")).toBeLessThan(shown.indexOf("second"));
});

test("what was set and said outlives a kill; commands, search, export and deletion work from the command line", async () => {
  await gateway.kill();
  await gateway.start();
  expect(last(await say("after the kill"))).toBe("two: two");
  expect((await gateway.beige("prompt", "a", "/model default")).out).toContain("one/m");
  expect((await gateway.beige("prompt", "a", "/status")).out).toContain("Session: cli:default (slow)");
  expect((await gateway.beige("sessions", "a")).out).toMatch(/a +cli:default +\S+ +one\/m +idle +slow/);
  const found = await gateway.beige("session", "search", "a", "after", "the");
  expect([found.code, found.out]).toEqual([0, expect.stringContaining("after the kill")]);
  expect((await gateway.beige("session", "search", "a", "nowhere")).code).toBe(1);
  expect((await gateway.beige("session", "export", "a")).out.split("\n")[0]).toContain('"type":"session"');
  expect((await gateway.beige("session", "export", "a", "-o", "markdown")).out).toContain("# Session cli:default");
  expect((await gateway.beige("session", "delete", "a", "cli:default", "--yes")).code).toBe(0);
  expect((await gateway.beige("session", "show", "a")).code).toBe(1);
}, 60_000);

test("a turn is steered and ended from outside, and refused when nothing runs", async () => {
  expect((await gateway.beige("session", "steer", "a", "cli:s", "early")).code).toBe(3);
  const running = say("slow", "cli:s");
  const steered = await until(
    async () => {
      const ran = await gateway.beige("session", "steer", "a", "cli:s", "and", "then", "--follow-up");
      return ran.code === 0;
    },
    5000,
    "it is steered",
  );
  expect(steered).toBe(true);
  const events = await running;
  expect(events.map((event: { type: string }) => event.type)).toContain("user");
  expect(last(events)).toBe("one: one");
  const stopped = say("slow", "cli:s");
  await until(async () => (await gateway.request("POST", "/api/agents/a/sessions/cli:s/abort", {})).body.ended === 1, 5000, "it is ended");
  expect((await stopped).at(-1)).toMatchObject({ type: "error", code: "unavailable" });
}, 60_000);

test.each([
  ["PATCH", "/api/agents/a/sessions/cli:x", { verbose: "yes" }, 400],
  ["PATCH", "/api/agents/a/sessions/cli:x", { model: "evil/model" }, 403],
  ["PATCH", "/api/agents/a/sessions/cli:x", { thinking: "hard" }, 400],
  ["PATCH", "/api/agents/a/sessions/nokey", { verbose: true }, 400],
  ["POST", "/api/agents/a/sessions/cli:x/entries", { entries: [{ type: "message" }] }, 400],
  ["POST", "/api/agents/a/sessions/cli:x/steer", { text: "" }, 400],
  ["GET", "/api/agents/a/sessions/cli:x", undefined, 404],
  ["GET", "/api/agents/a/search", undefined, 400],
  ["GET", "/api/agents/nobody/sessions", undefined, 404],
] as const)("%s %s with %j answers %i", async (method, path, body, status) => {
  expect((await gateway.request(method, path, body)).status).toBe(status);
});

test("a stop lets a turn finish, and ends one that does not with a last event: exit 0 within 11 s", async () => {
  const short = say("slow", "cli:short");
  await until(async () => (await gateway.request("GET", "/api/agents/a/sessions")).body.sessions[0]?.running, 5000, "it runs");
  const quick = gateway.stop();
  expect(last(await short)).toBe("one: one slow");
  expect(await quick).toBe(0);
  await gateway.start();
  const long = say("for ever", "cli:long");
  await until(async () => (await gateway.request("GET", "/api/agents/a/sessions")).body.sessions[0]?.running, 5000, "it runs");
  const since = Date.now();
  const stopped = gateway.stop();
  expect((await long).at(-1)).toMatchObject({ type: "error", code: "unavailable", message: "the gateway is stopping" });
  expect([await stopped, Date.now() - since < 11_500]).toEqual([0, true]);
}, 60_000);

test("a second signal ends the gateway at once, and the message is answered by the next one", async () => {
  await gateway.start();
  const cut = say("for ever", "cli:cut");
  await until(async () => (await gateway.request("GET", "/api/agents/a/sessions")).body.sessions[0]?.running, 5000, "it runs");
  const since = Date.now();
  void gateway.stop();
  await pause(300);
  await gateway.stop();
  await cut;
  expect(Date.now() - since).toBeLessThan(3000);
  await gateway.start();
  const sessions = async () =>
    (await gateway.request("GET", "/api/agents/a/sessions")).body.sessions as { session: string; running: boolean }[];
  await until(async () => (await sessions()).find((one) => one.session === "cli:cut")?.running, 5000, "it is taken up");
  expect((await gateway.request("POST", "/api/agents/a/sessions/cli:cut/abort", {})).body).toEqual({ ended: 1 });
}, 60_000);
