// The guest as a client of tools, and as PID 1's voice, against a real socket.
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, closeSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { guestPath } from "../guest.ts";
import { plain, type Outcome } from "./fixture.ts";

let folder: string;
let server: Server | undefined;
let socket: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-client-"));
  socket = join(folder, "s");
});
afterEach(async () => {
  const open = server;
  server = undefined;
  if (open !== undefined) await new Promise((resolve) => open.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

type Request = Readonly<Record<string, unknown>>;

/** Answers each line with what `reply` says; collects the requests. */
async function listen(reply: (request: Request, client: Socket) => string | Buffer | undefined): Promise<Request[]> {
  const requests: Request[] = [];
  server = createServer((client) => {
    let line = "";
    client.on("error", () => undefined);
    client.setEncoding("utf8").on("data", (chunk: string) => {
      line += chunk;
      if (!line.includes("\n")) return;
      const request = JSON.parse(line) as Request;
      line = "";
      requests.push(request);
      const answer = reply(request, client);
      if (answer !== undefined) client.write(answer);
    });
  });
  await new Promise<void>((resolve) => server?.listen(socket, resolve));
  return requests;
}

const answer = (more: Request): string => `${JSON.stringify({ type: "tool_response", success: true, exitCode: 0, ...more })}\n`;
const call = (args: readonly string[], more: { input?: Uint8Array; env?: NodeJS.ProcessEnv; argv0?: string } = {}): Promise<Outcome> =>
  plain(args, { ...more, env: { BEIGE_SOCKET: socket, ...more.env } });

test("a launcher's own name is the tool, and words, token and folder go along", async () => {
  const requests = await listen(() => answer({ output: "hi\n", exitCode: 7, error: "no" }));
  const launcher = join(folder, "memory");
  symlinkSync(guestPath(), launcher);
  const words = ["save", "kéy", '"\\\n\t\u0001'];
  const child = spawn(launcher, words, { env: { BEIGE_SOCKET: socket, BEIGE_CALL: "tok" }, cwd: folder, stdio: "ignore" });
  expect(await new Promise((resolve) => child.on("close", resolve))).toBe(7);
  expect(requests[0]).toMatchObject({ type: "tool_request", v: 1, tool: "memory", args: words, call: "tok", cwd: folder });
  const end = await call(words, { argv0: "memory" });
  expect(requests[1]).not.toHaveProperty("call");
  expect([end.stdout.toString(), end.stderr.toString(), end.code]).toStrictEqual(["hi\n", "no\n", 7]);
});

test("any words arrive as they were given", async () => {
  const requests = await listen(() => answer({}));
  const word = fc.string({ unit: "binary", maxLength: 30 }).filter((text) => !text.includes("\0"));
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 5 }), async (args) => {
      await call(["call", "t", ...args]);
      expect(requests.at(-1)?.["args"]).toStrictEqual(args);
    }),
    { numRuns: 60 },
  );
});

test("any text that a gateway answers is printed as it is, escaped or not", async () => {
  let output = "";
  let ascii = false;
  const escape = (json: string): string =>
    ascii ? json.replaceAll(/[^\n -~]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`) : json;
  await listen(() => escape(answer({ extra: { deep: [1, -2.5e3, null, true, { a: "}]" }] }, output, last: "x" })));
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "binary", maxLength: 40 }), fc.boolean(), async (text, escaped) => {
      output = text;
      ascii = escaped;
      expect((await call(["call", "t"])).stdout.toString()).toBe(text);
    }),
    { numRuns: 60 },
  );
});

test("half a surrogate pair becomes the replacement character instead of broken bytes", async () => {
  await listen(() => '{"type":"tool_response","success":true,"exitCode":0,"output":"a\\ud800b\\udc00c\\ud83d\\ude00"}\n');
  expect((await call(["call", "t"])).stdout.toString()).toBe("a\ufffdb\ufffdc😀");
});

test("bytes that are no text come through as base64", async () => {
  const data = Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 31) & 255));
  await listen(() => answer({ outputBase64: data.toString("base64") }));
  expect((await call(["call", "t"])).stdout.equals(data)).toBe(true);
});

test("words that are no text are refused before anything is sent", async () => {
  const requests = await listen(() => answer({}));
  const script = `exec ${guestPath()} call t "$(printf 'a\\377')"`;
  const child = spawn("sh", ["-c", script], { env: { BEIGE_SOCKET: socket, PATH: process.env["PATH"] } });
  expect(await new Promise((resolve) => child.on("close", resolve))).toBe(2);
  expect(requests).toStrictEqual([]);
});

test("a pipe and a file go along as standard input, a null device does not", async () => {
  const requests = await listen(() => answer({}));
  await call(["call", "t"], { input: Buffer.from("piped\0\xff", "latin1") });
  expect(requests.at(-1)?.["stdin"]).toBe(Buffer.from("piped\0\xff", "latin1").toString("base64"));
  const file = join(folder, "file");
  writeFileSync(file, "first\nsecond\n");
  const env = { BEIGE_SOCKET: socket, PATH: process.env["PATH"] };
  const shell = async (script: string): Promise<void> => {
    const child = spawn("sh", ["-c", script, guestPath(), file], { env, stdio: "ignore" });
    await new Promise((resolve) => child.on("close", resolve));
  };
  requests.length = 0;
  await shell('while read -r line; do "$0" call t "$line"; done <"$1"');
  expect(requests.map((request) => request["args"])).toStrictEqual([["first"], ["second"]]);
  expect(requests[0]?.["stdin"]).toBe(Buffer.from("second\n").toString("base64"));
  requests.length = 0;
  await shell('"$0" call t');
  expect(requests[0]).not.toHaveProperty("stdin");
});

test("more than a mebibyte of standard input is refused", async () => {
  const requests = await listen(() => answer({}));
  expect((await call(["call", "t"], { input: Buffer.alloc((1 << 20) + 1) })).code).toBe(2);
  expect((await call(["call", "t"], { input: Buffer.alloc(1 << 20) })).code).toBe(0);
  expect(requests.length).toBe(1);
});

test("the pipe that a command itself was started with does not block a launcher", async () => {
  const requests = await listen(() => answer({ output: "done" }));
  const { framed } = await import("./fixture.ts");
  const run = framed(["--", guestPath(), "call", "t"], { ...process.env, BEIGE_SOCKET: socket });
  expect(await run.exit).toStrictEqual({ kind: "code", code: 0 });
  expect(requests[0]).not.toHaveProperty("stdin");
  const fed = framed(["--", guestPath(), "call", "t"], { ...process.env, BEIGE_SOCKET: socket });
  fed.send(0, Buffer.from("given"));
  fed.send(1);
  await fed.exit;
  expect(requests[1]?.["stdin"]).toBe(Buffer.from("given").toString("base64"));
});

test("no gateway, a gateway that hangs up and one that talks nonsense each exit 69 with a sentence", async () => {
  const none = await call(["call", "t"]);
  expect([none.code, none.stderr.toString()]).toStrictEqual([69, "beige: gateway does not answer at /beige/gateway.sock\n"]);
  let reply: string | undefined;
  await listen((_, client) => {
    if (reply === undefined) client.destroy();
    return reply;
  });
  expect((await call(["call", "t"])).code).toBe(69);
  const nonsense = [
    "{}\n",
    "[]\n",
    "x\n",
    '{"type":"hello","exitCode":0}\n',
    '{"type":"tool_response","exitCode":256}\n',
    '{"type":"tool_response"}\n',
  ];
  nonsense.push(
    answer({}).replace("}\n", "} x\n"),
    `${"[".repeat(100_000)}\n`,
    `{"a":${"[".repeat(100_000)}\n`,
    '{"type":"tool_response","exitCode":0,"output":"\\u12"}\n',
    "\n",
  );
  for (const line of nonsense) {
    reply = line;
    expect([line.slice(0, 40), (await call(["call", "t"])).code]).toStrictEqual([line.slice(0, 40), 69]);
  }
});

test("an answer of megabytes that dribbles in is printed whole, and one without end is given up", async () => {
  const output = "x".repeat(6_000_000);
  await listen((request, client) => {
    if ((request["args"] as string[])[0] === "whole") return answer({ output });
    const more = (): void => {
      if (client.write(Buffer.alloc(1 << 20, 120))) setImmediate(more);
      else client.once("drain", more);
    };
    more();
    return undefined;
  });
  expect((await call(["call", "t", "whole"])).stdout.toString()).toBe(output);
  const endless = await call(["call", "t", "endless"]);
  expect([endless.code, endless.stderr.toString()]).toStrictEqual([69, "beige: gateway's answer is more than 16777216 bytes\n"]);
});

test("PID 1 says hello, says it again to a gateway that comes back, and never reads commands", async () => {
  const child = spawn("unshare", ["--pid", "--fork", "--kill-child", guestPath(), "init"], {
    env: { BEIGE_SOCKET: socket },
    stdio: "ignore",
  });
  try {
    const hellos: Request[] = [];
    const clients: Socket[] = [];
    const open = async (): Promise<void> => {
      server = createServer((client) => {
        clients.push(client);
        client.on("error", () => undefined);
        client.on("data", (data) => hellos.push(JSON.parse(data.toString()) as Request));
      });
      await new Promise<void>((resolve) => server?.listen(socket, resolve));
    };
    await open();
    await expect.poll(() => hellos.length, { timeout: 3000 }).toBe(1);
    expect(hellos[0]).toMatchObject({ type: "hello", v: 1 });
    clients[0]?.write('{"type":"tool_request"}\n'.repeat(1000));
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(clients[0]?.destroyed).toBe(false);
    const old = server;
    for (const client of clients) client.destroy();
    await new Promise((resolve) => old?.close(resolve));
    await new Promise((resolve) => setTimeout(resolve, 300));
    await open();
    await expect.poll(() => hellos.length, { timeout: 3000 }).toBe(2);
    for (const client of clients) client.destroy();
  } finally {
    child.kill("SIGKILL");
  }
});

test("a regular file at a descriptor is read from where it stands", async () => {
  const requests = await listen(() => answer({}));
  const file = join(folder, "f");
  writeFileSync(file, "whole");
  const fd = openSync(file, "r");
  const child = spawn(guestPath(), ["call", "t"], { env: { BEIGE_SOCKET: socket }, stdio: [fd, "ignore", "ignore"], argv0: "tool-client" });
  await new Promise((resolve) => child.on("close", resolve));
  closeSync(fd);
  expect(requests[0]?.["stdin"]).toBe(Buffer.from("whole").toString("base64"));
});
