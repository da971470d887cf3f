// The guest inside a real container, and a gateway's end of its socket.
import { execFileSync } from "node:child_process";
import { chownSync, chmodSync, rmSync, symlinkSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { finish } from "../contract/sandbox.ts";
import { openGround, type Ground } from "./ground.ts";

type Frame = Readonly<Record<string, unknown>>;

let ground: Ground;
let server: Server | undefined;
const clients = new Set<Socket>();
const frames: Frame[] = [];
const path = (): string => join(ground.folder, "beige/gateway.sock");

async function open(): Promise<void> {
  rmSync(path(), { force: true });
  server = createServer((client) => {
    clients.add(client);
    let line = "";
    client.on("error", () => undefined).on("close", () => clients.delete(client));
    client.setEncoding("utf8").on("data", (chunk: string) => {
      line += chunk;
      if (!line.endsWith("\n")) return;
      const frame = JSON.parse(line) as Frame;
      frames.push(frame);
      line = "";
      if (frame["type"] !== "tool_request") return;
      client.write(
        `${JSON.stringify({ type: "tool_response", success: true, exitCode: 4, output: `ran ${frame["tool"] as string}\n` })}\n`,
      );
    });
  });
  await new Promise<void>((resolve) => server?.listen(path(), resolve));
  chmodSync(path(), 0o600);
  chownSync(path(), ground.spec().user.uid, ground.spec().user.gid);
}
/** As a gateway that is killed: all connections are gone, the file stays. */
async function drop(): Promise<void> {
  const old = server;
  for (const client of clients) client.destroy();
  await new Promise((resolve) => old?.close(resolve));
}
const hellos = (id: string): number => frames.filter((frame) => frame["type"] === "hello" && frame["container"] === id.slice(0, 12)).length;

beforeAll(() => {
  ground = openGround();
  symlinkSync("/beige/tool-client", join(ground.folder, "bin/memory"));
});
afterAll(async () => {
  await drop();
  await ground.cleanup();
});

test("PID 1 says hello with the container's short id, and again to a gateway that comes back under a running container", async () => {
  await open();
  const id = await ground.up();
  await expect.poll(() => hellos(id), { timeout: 3000 }).toBe(1);
  await drop();
  await open();
  await expect.poll(() => hellos(id), { timeout: 3000 }).toBe(2);
  expect((await ground.sandbox.inspect(id))?.state).toBe("running");
});

test("a launcher works as a command, before and after the gateway was away, and says plainly when it is", async () => {
  const id = await ground.up();
  const first = await ground.run(id, "memory get 'a b' </dev/null", { env: { BEIGE_CALL: "token" } });
  expect(first).toMatchObject({ stdout: Buffer.from("ran memory\n"), exit: { kind: "code", code: 4 } });
  expect(frames.at(-1)).toMatchObject({ tool: "memory", args: ["get", "a b"], call: "token", cwd: "/workspace" });
  await drop();
  const away = await ground.run(id, "memory get x");
  expect([away.exit, away.stderr.toString()]).toStrictEqual([
    { kind: "code", code: 69 },
    "beige: gateway does not answer at /beige/gateway.sock\n",
  ]);
  await open();
  expect((await ground.run(id, "echo text | memory save k -")).exit).toStrictEqual({ kind: "code", code: 4 });
  expect(frames.findLast((frame) => frame["tool"] === "memory")?.["stdin"]).toBe(Buffer.from("text\n").toString("base64"));
});

test("a replaced guest binary is there for the next command while PID 1 runs on", async () => {
  const id = await ground.up();
  execFileSync("sh", ["-c", "cp tool-client new && mv new tool-client"], { cwd: join(ground.folder, "beige") });
  expect((await ground.run(id, "echo still")).stdout.toString()).toBe("still\n");
});

test("files go in and out of the workspace with the owner that the sandbox has", async () => {
  const id = await ground.up();
  const data = Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => (i * 131) & 255));
  const guest = async (args: readonly string[], input?: Uint8Array) =>
    finish(await ground.sandbox.exec(id, { command: ["/beige/tool-client", ...args], timeoutMs: 20_000 }), input);
  expect((await guest(["put", "--size", String(data.length), "deep/er/file"], data)).exit).toStrictEqual({ kind: "code", code: 0 });
  expect((await guest(["cat", "/workspace/deep/er/file"])).stdout.equals(data)).toBe(true);
  expect((await ground.run(id, "stat -c '%u %a' deep/er/file")).stdout.toString()).toBe("20777 644\n");
  const cut = await ground.sandbox.exec(id, { command: ["/beige/tool-client", "put", "deep/er/file"], timeoutMs: 20_000 });
  await cut.write(Buffer.from("half"));
  cut.kill();
  await cut.exit;
  expect((await ground.run(id, "wc -c <deep/er/file; ls -A deep/er")).stdout.toString()).toBe("3000000\nfile\n");
});
