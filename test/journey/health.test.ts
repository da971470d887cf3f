// A real gateway and what its providers suffer: shown at once, remembered over a kill, told with its end, and over when it is over.
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { makeGateway, until } from "../gateway.ts";

vi.setConfig({ testTimeout: 60_000 });
const gateway = makeGateway({ env: { DOCKER_HOST: "unix:///nonexistent/docker.sock" } });
const COOL_MS = 9000;
const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: first}
spec:
  api: echo
  models: [{id: m}]
  echo: {steps: [{match: ^boom, error: {status: 500}}, {match: ^limit, error: {status: 429, retryAfterMs: ${COOL_MS}}}]}
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: next}
spec: {api: echo, models: [{id: m}], echo: {steps: [{match: all$, error: {status: 429, retryAfterMs: 600000}}]}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec: {model: {provider: first, id: m}, fallbacks: [{provider: next, id: m}]}
`;

beforeAll(async () => {
  await gateway.start();
  await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder: gateway.home, text: STACK }], wait: false });
}, 40_000);
afterAll(() => gateway.clean());

interface Seen {
  readonly conditions: readonly { readonly type: string; readonly status: string; readonly reason: string }[];
  readonly observed: { readonly models: readonly { readonly state: string; readonly failures: number; readonly coolingUntil?: string }[] };
}
const seen = async (name = "first"): Promise<Seen> =>
  (await gateway.request("GET", `/apis/beige.dev/v1/providers/${name}`)).body.status as Seen;
const shows = (state: string, name = "first"): Promise<Seen> =>
  until(
    async () => {
      const status = await seen(name);
      return status.observed.models[0]?.state === state ? status : undefined;
    },
    3000,
    `${name} is shown as ${state}`,
  );
const degraded = ({ conditions }: Seen): string | undefined => conditions.find(({ type }) => type === "Degraded")?.status;
const post = (path: string, body: object): Promise<IncomingMessage> =>
  new Promise((done, fail) => {
    const headers = { "content-type": "application/json" };
    request({ socketPath: join(gateway.home, "beige.sock"), method: "POST", path, headers }, done)
      .on("error", fail)
      .end(JSON.stringify(body));
  });
const prompt = (text: string) => gateway.beige("prompt", "a", "--new", text);

test("the status follows the traffic at once: failing, healthy, cooling, and a kill forgets nothing of it", async () => {
  await shows("healthy");
  expect(await prompt("boom")).toMatchObject({ code: 0, out: "boom\n" });
  expect(degraded(await shows("failing"))).not.toBe("True");
  expect(await prompt("fine")).toMatchObject({ code: 0, out: "fine\n" });
  await shows("healthy");
  const { err } = await prompt("limit");
  expect(err).toContain("answered by next/m, a fallback");
  const cooling = await shows("cooling");
  expect(degraded(cooling)).toBe("True");
  expect((await gateway.beige("describe", "provider", "first")).out).toMatch(/Degraded +cooling down: m/);
  await gateway.kill();
  await gateway.start();
  expect((await shows("cooling")).observed.models[0]?.coolingUntil).toBe(cooling.observed.models[0]?.coolingUntil);
  const over = Date.parse(cooling.observed.models[0]?.coolingUntil ?? "") - Date.now();
  await until(async () => degraded(await seen()) !== "True", over + 3000, "it is well when it is over");
  expect(await prompt("again")).toMatchObject({ code: 0, err: "" });
});

test("when every model cools, whoever asks is told the soonest end, at every door", async () => {
  expect((await prompt("limit all")).code).toBe(8);
  await shows("cooling");
  await shows("cooling", "next");
  const said = await prompt("more");
  expect([said.code, said.out]).toEqual([8, ""]);
  const body = { model: "a", messages: [{ role: "user", content: "more" }], max_tokens: 5 };
  const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];
  for (const [path, more] of [
    ["/v1/chat/completions", {}],
    ["/v1/chat/completions", { stream: true }],
    ["/v1/chat/completions", { tools }],
    ["/v1/messages", { stream: true }],
    ["/v1/responses", { messages: undefined, max_tokens: undefined, input: "more" }],
  ] as const) {
    const answer = await post(path, { ...body, ...more });
    const after = Number(answer.headers["retry-after"]);
    expect([path, answer.statusCode, after >= 1 && after <= COOL_MS / 1000], JSON.stringify(answer.headers)).toEqual([path, 429, true]);
    answer.resume();
  }
});
