import { get } from "node:https";
import { connect } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeCertificate } from "../../adapters/certificate.ts";
import { createApi, type Api, type Listening } from "../api.ts";
import { fakeControl } from "../fake.ts";
import { realClock } from "../rig.ts";

const { key: KEY, cert: CERT } = makeCertificate(Date.now(), "00");
const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
let folder: string;
let api: Api;
let listening: Listening;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "beige-tls-"));
  const base = { control: fakeControl(), token: "secret", version: "0", home: folder, clock: realClock, log: quiet };
  const never = async (): Promise<never> => Promise.reject(new Error("not called"));
  const directory = { agent: () => undefined } as never;
  api = createApi({
    ...base,
    directory,
    call: never,
    turn: never as never,
    health: () => ({ ready: true, engine: "ok" }),
    limits: { drainMs: 100 },
  });
  listening = await api.listen({ socket: join(folder, "s"), port: "none", kube: { port: 0, key: KEY, cert: CERT } });
});
afterEach(async () => {
  await api.close();
  rmSync(folder, { recursive: true, force: true });
});

function ask(path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = get(`${listening.kube}${path}`, { ca: CERT, headers, servername: "localhost", agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
  });
}

test("the door with TLS is told, and has the same gate as the other one", async () => {
  expect(listening).toEqual({ socket: join(folder, "s"), kube: expect.stringMatching(/^https:\/\/127\.0\.0\.1:\d+$/) });
  const bearer = { authorization: "Bearer secret" };
  expect(await ask("/apis", bearer)).toBe(200);
  expect(await ask("/apis", {})).toBe(401);
  expect(await ask("/apis", { authorization: "Bearer other" })).toBe(401);
  expect(await ask("/apis", { ...bearer, host: "evil.example" })).toBe(421);
  expect(await ask("/apis", { ...bearer, origin: "https://evil.example" })).toBe(403);
});

test("plain HTTP on the door with TLS gets nothing, and the door lives on", async () => {
  const port = Number(listening.kube?.split(":").at(-1));
  const heard = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connect({ host: "127.0.0.1", port }, () => socket.write("GET /apis HTTP/1.1\r\nHost: x\r\n\r\n"));
    socket.on("data", (data: Buffer) => (text += data.toString()));
    socket.on("error", () => resolve(text));
    socket.on("close", () => resolve(text));
  });
  expect(heard).not.toContain("APIGroupList");
  expect(await ask("/apis", { authorization: "Bearer secret" })).toBe(200);
});

test("a port that is taken is a warning that names its flag", async () => {
  const port = Number(listening.kube?.split(":").at(-1));
  const other = mkdtempSync(join(tmpdir(), "beige-tls-"));
  const base = { control: fakeControl(), token: "secret", version: "0", home: other, clock: realClock, log: quiet };
  const second = createApi({
    ...base,
    directory: {} as never,
    call: {} as never,
    turn: {} as never,
    health: () => ({ ready: true, engine: "ok" }),
  });
  const told = await second.listen({ socket: join(other, "s"), port: "none", kube: { port, key: KEY, cert: CERT } });
  expect(told.kube).toBeUndefined();
  expect(told.warning).toMatch(/is taken.*--kube-listen/);
  await second.close();
  rmSync(other, { recursive: true, force: true });
});
