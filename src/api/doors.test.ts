import { mkdtempSync, rmSync, statSync, writeFileSync, existsSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createApi } from "./api.ts";
import { rig, type Rig } from "./rig.ts";

let folder: string;
let at: Rig;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "beige-doors-"));
  at = await rig();
});
afterEach(async () => {
  await at.end();
  rmSync(folder, { recursive: true, force: true });
});

/** A second gateway, on the engine of the first. */
const second = () =>
  createApi({
    control: at.control,
    directory: {} as never,
    call: () => Promise.reject(new Error("unused")),
    turn: () => [] as never,
    token: "t".repeat(40),
    version: "0",
    home: folder,
    clock: {
      now: () => 0,
      monotonic: () => performance.now(),
      sleep: () => new Promise((r) => void setTimeout(r, 5)),
      after: () => ({ cancel: () => undefined }),
    },
    log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
    health: () => ({ ready: true, engine: "ok" }),
  });

const bound = (server: Server): Promise<number> =>
  new Promise((resolve) => void server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)));

test("the socket belongs to its owner alone and goes with the gateway", async () => {
  expect((statSync(at.socket).mode & 0o777).toString(8)).toBe("600");
  await at.api.close();
  expect(existsSync(at.socket)).toBe(false);
});

test("a socket left behind by a killed gateway is replaced", async () => {
  const path = join(folder, "s.sock");
  spawnSync(process.execPath, [
    "-e",
    `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`,
  ]);
  expect(statSync(path).isSocket()).toBe(true);
  const api = second();
  expect(await api.listen({ socket: path, port: "none" })).toEqual({ socket: path });
  await api.close();
});

test("a socket that is served, and a file that is no socket, are left alone", async () => {
  await expect(second().listen({ socket: at.socket, port: "none" })).rejects.toMatchObject({
    code: "conflict",
    message: expect.stringContaining("another gateway"),
  });
  const path = join(folder, "precious");
  writeFileSync(path, "keep");
  await expect(second().listen({ socket: path, port: "none" })).rejects.toMatchObject({ code: "conflict" });
  expect(readFileSync(path, "utf8")).toBe("keep");
  expect((await at.ask("GET /livez")).text).toBe("ok");
});

test("a path that no socket can have is refused with its length and a way out", async () => {
  const socket = join(folder, "ü".repeat(50));
  await expect(second().listen({ socket, port: "none" })).rejects.toMatchObject({
    code: "invalid",
    message: expect.stringContaining("107 are allowed"),
    hint: expect.stringContaining("BEIGE_HOME"),
  });
});

test("with its port taken the gateway serves on its socket and says so", async () => {
  const other = createServer();
  const port = await bound(other);
  const api = second();
  const socket = join(folder, "s.sock");
  const answer = await api.listen({ socket, port });
  expect([answer.socket, answer.url, answer.warning]).toEqual([
    socket,
    undefined,
    expect.stringContaining(`port ${port} on 127.0.0.1 is taken`),
  ]);
  expect(statSync(socket).isSocket()).toBe(true);
  await api.close();
  other.close();
});

test("no address but loopback is listened on", async () => {
  const api = second();
  await expect(api.listen({ socket: join(folder, "s.sock"), host: "0.0.0.0", port: 0 })).rejects.toMatchObject({
    code: "invalid",
    hint: expect.stringContaining("ssh -L"),
  });
  await api.close();
});

test("a gateway that ends leaves the socket of its successor in place", async () => {
  rmSync(at.socket);
  const api = second();
  await api.listen({ socket: at.socket, port: "none" });
  await at.api.close();
  expect(statSync(at.socket).isSocket()).toBe(true);
  await api.close();
});
