// A replacement on the real engine: a running prompt gets its answer, and a gateway that is killed in the middle leaves one container.
import { afterEach, expect, test } from "vitest";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";

const stack = (image: string): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec:
  api: echo
  echo:
    steps:
      - {match: "^work", toolCall: {tool: exec, args: {command: "sleep 4; hostname"}}}
      - {match: ".", from: tool, text: "answered by $0"}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: worker}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "${image}", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

let gateway: Gateway;
afterEach(async () => gateway.clean());

const image = async (): Promise<unknown> =>
  (await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/worker")).body.status?.observed?.image;

test("a prompt that runs while the image changes gets its answer from the old sandbox, and then the new one serves", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(stack("beige-tiny:1"));
  const [old = ""] = gateway.containers();
  const answer = gateway.stream("/api/agents/worker/prompt", { text: "work" });
  await until(async () => (await gateway.request("GET", "/api/agents/worker")).status === 200, 5000, "the agent is known");
  await pause(2000);
  const events = await gateway.apply(stack("beige-base:1"));
  const plan = events.find((event) => event.type === "plan").plan;
  expect(plan.objects.find((each: { ref: { name: string } }) => each.ref.name === "worker")).toMatchObject({
    verb: "replace",
    forces: "sandbox.image",
    sessions: 1,
  });
  expect((await answer).at(-1)).toMatchObject({ type: "done", text: expect.stringContaining(old.slice(0, 12)) });
  const now = gateway.containers();
  expect(now).toHaveLength(1);
  expect(now[0]).not.toBe(old);
  expect(await image()).toBe("beige-base:1");
});

test("a busy agent does not drain into its timeout: new calls wait for the new sandbox, and it switches as soon as the last one ends", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(stack("beige-tiny:1"));
  const [old = ""] = gateway.containers();
  const exec = async (command: string): Promise<{ readonly code: number; readonly text: string; readonly at: number }> => {
    const { body } = await gateway.request("POST", "/api/agents/worker/exec", { command });
    const text = (body.content as { text?: string }[]).map((part) => part.text ?? "").join("");
    return { code: body.exitCode, text: text.split("\n")[0] ?? "", at: Date.now() };
  };
  const long = exec("sleep 5; hostname");
  await pause(500);
  let applied = 0;
  const applying = gateway.apply(stack("beige-base:1")).then(() => (applied = Date.now()));
  const draining = async (): Promise<boolean> =>
    (await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/worker")).body.status?.conditions?.some(
      (each: { reason: string }) => each.reason === "Draining",
    );
  await until(draining, 8000, "it drains");
  // One call after the other, as a busy agent makes them: none may enter the old sandbox.
  const late: Awaited<ReturnType<typeof exec>>[] = [];
  const busy = [1, 2, 3].map(async () => {
    for (let i = 0; i < 3; i++) late.push(await exec("hostname"));
  });
  const ended = await long;
  await Promise.all([...busy, applying]);
  const [now = ""] = gateway.containers();
  expect(ended).toMatchObject({ code: 0, text: old.slice(0, 12) });
  expect(late.map(({ code, text }) => [code, text])).toEqual(Array.from({ length: 9 }, () => [0, now.slice(0, 12)]));
  expect(late.every(({ at }) => at >= ended.at)).toBe(true);
  // The timeout is 60 s.
  expect(applied - ended.at).toBeLessThan(4000);
});

test.each([20, 150, 450])("a gateway that is killed %d ms into a replacement ends it after its restart, with one container", async (ms) => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(stack("beige-tiny:1"));
  const changing = gateway.apply(stack("beige-base:1")).catch(() => []);
  await pause(ms);
  await gateway.kill();
  await changing;
  expect(gateway.containers().length).toBeGreaterThan(0);
  await gateway.start();
  // A kill before the commit leaves the old wish: then it is applied again, as a person would.
  await gateway.apply(stack("beige-base:1"));
  await until(
    async () => gateway.containers().length === 1 && (await image()) === "beige-base:1",
    20_000,
    "one container of the new image",
  );
  const ran = await gateway.request("POST", "/api/agents/worker/exec", { command: "echo serving" });
  expect(ran.body).toMatchObject({ exitCode: 0 });
});
