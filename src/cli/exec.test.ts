import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { stand, type Stand } from "./harness.ts";

const open: { close(): void | Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

/** Of the last command: its query and what came for its standard input. */
interface Heard {
  query?: URLSearchParams;
  readonly frames: Buffer[];
}

async function gateway(answer: (ws: WebSocket, say: (channel: number, data: string) => void) => Promise<void> | void): Promise<{
  readonly made: Stand;
  readonly heard: Heard;
}> {
  const made = await stand();
  const heard: Heard = { frames: [] };
  const server: Server = createServer((_, response) => response.writeHead(404).end());
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) =>
    sockets.handleUpgrade(request, socket, head, (ws) => {
      heard.query = new URL(request.url ?? "", "http://x").searchParams;
      ws.on("message", (data: Buffer) => heard.frames.push(data));
      void answer(ws, (channel, data) => ws.send(Buffer.concat([Uint8Array.of(channel), Buffer.from(data)])));
    }),
  );
  await new Promise<void>((done) => server.listen(join(made.home, "beige.sock"), done));
  open.push(
    {
      close: () => {
        server.closeAllConnections();
        server.close();
        for (const client of sockets.clients) client.terminate();
      },
    },
    made,
  );
  return { made, heard };
}

const failure = (reason: string, code: number, more: object): string =>
  JSON.stringify({ kind: "Status", status: "Failure", reason, code, ...more });
const exited = (code: number): string =>
  failure("NonZeroExitCode", 500, {
    message: `command terminated with exit code ${code}`,
    details: { causes: [{ reason: "ExitCode", message: String(code) }] },
  });

test("exec keeps the outputs apart and passes the words and the exit code on; standard input is not sent without -i", async () => {
  const { made, heard } = await gateway((ws, say) => {
    say(1, "out\n");
    say(2, "err\n");
    say(3, exited(42));
    ws.close();
  });
  const ran = await made.run(["exec", "team.a", "--cwd", "/data", "--", "printf", "it's $HOME", "-l"], { stdin: "secret" });
  expect(ran).toMatchObject({ code: 42, out: "out\n", err: "err\n" });
  expect(heard.query?.getAll("command")).toEqual(["printf", "it's $HOME", "-l"]);
  expect(Object.fromEntries(heard.query ?? [])).toMatchObject({ stdout: "true", stderr: "true", cwd: "/data", timeout: "120" });
  expect([heard.query?.has("stdin"), heard.frames]).toEqual([false, []]);
  await made.run(["exec", "a", "--timeout", "5m", "--", "ls | wc -l"]);
  expect([heard.query?.getAll("command"), heard.query?.get("timeout")]).toEqual([["sh", "-c", "ls | wc -l"], "300"]);
});

test("exec shows what is written while the command still runs, however much it is", async () => {
  const gate = Promise.withResolvers<void>();
  const { made } = await gateway(async (ws, say) => {
    say(1, "first\n");
    await gate.promise;
    for (let i = 0; i < 40; i++) say(1, "x".repeat(64 * 1024));
    say(3, JSON.stringify({ kind: "Status", status: "Success", code: 200 }));
    ws.close();
  });
  const child = made.start(["exec", "a", "--", "x"]);
  let size = 0;
  child.stdout?.on("data", (part: Buffer) => {
    if (size === 0) gate.resolve();
    size += part.length;
  });
  const code = await new Promise((done) => child.on("close", done));
  expect([code, size]).toEqual([0, 6 + 40 * 64 * 1024]);
});

test("a refusal is an error, not an output", async () => {
  const { made } = await gateway((ws, say) => {
    say(3, failure("Forbidden", 403, { message: "Permission denied: exec" }));
    ws.close();
  });
  expect(await made.run(["exec", "a", "--", "x"])).toMatchObject({
    code: 4,
    out: "",
    err: expect.stringContaining("Permission denied: exec"),
  });
  const alone = await stand();
  open.push(alone);
  expect(await alone.run(["exec", "a", "--", "x"])).toMatchObject({ code: 5, err: expect.stringContaining("no gateway answers") });
});

const SENT: readonly (readonly [string, string])[] = [
  ["no JSON", "{"],
  ["nothing", ""],
  ["null", "null"],
  ["a text", '"Success"'],
  ["a list", "[]"],
  ["of another kind", '{"status":"Perhaps"}'],
  ["a message that is none", '{"status":"Failure","reason":"NonZeroExitCode","message":{"a":1}}'],
];
test.each(SENT)("a last word that is %s is a broken answer, said in one sentence", async (_, word) => {
  const { made } = await gateway((ws, say) => {
    say(3, word);
    ws.close();
  });
  const ran = await made.run(["exec", "a", "--", "x"]);
  expect(ran).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^error: the gateway's answer is broken/) });
});

test.each([
  "7",
  "[null]",
  "[]",
  '[{"reason":"ExitCode"}]',
  '[{"reason":"ExitCode","message":"0"}]',
  '[{"reason":"ExitCode","message":"1e9"}]',
])("a command that failed with no code that can be one (%s) never counts as well ended", async (causes) => {
  const { made } = await gateway((ws, say) => {
    say(3, `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":${causes}}}`);
    ws.close();
  });
  expect(await made.run(["exec", "a", "--", "x"])).toMatchObject({ code: 1, out: "" });
});

test("what is said of the end moves no cursor", async () => {
  const { made } = await gateway((ws, say) => {
    say(
      3,
      failure("NonZeroExitCode", 500, {
        message: "lost: \u001b[2Jgone\nsecond\u009b31m",
        details: { causes: [{ reason: "ExitCode", message: "255" }] },
      }),
    );
    ws.close();
  });
  const { code, err } = await made.run(["exec", "a", "--", "x"]);
  expect(code).toBe(255);
  expect(err).toMatch(/^lost: .*gone second[^\n]*\n$/);
  expect(["\u001b", "\u009b"].filter((sign) => err.includes(sign))).toEqual([]);
});

test("a reader that has had enough ends it quietly, and not by an error of ours", async () => {
  const { made } = await gateway((ws, say) => {
    const more = setInterval(() => say(1, "y\n".repeat(10_000)), 1);
    ws.on("close", () => clearInterval(more));
  });
  const child = made.start(["exec", "a", "--", "yes"]);
  let err = "";
  child.stderr?.on("data", (part: Buffer) => (err += part.toString()));
  child.stdout?.once("data", () => child.stdout?.destroy());
  const code = await new Promise((done) => child.on("close", done));
  expect([code, err]).toEqual([141, ""]);
});

test("whoever types beige is told in words of beige, whatever the door says to kubectl", async () => {
  const status = {
    kind: "Status",
    reason: "NotFound",
    code: 404,
    message: 'pods "ghost" not found',
    details: { hint: "kubectl get agents -A" },
  };
  const made = await stand();
  const server = createServer().on("upgrade", (_, socket) => {
    const body = JSON.stringify(status);
    socket.end(`HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  });
  await new Promise<void>((done) => server.listen(join(made.home, "beige.sock"), done));
  open.push({ close: () => void server.close() }, made);
  const err = "error: agent/ghost does not exist\nfix:  beige get agents -A\n";
  expect(await made.run(["exec", "ghost", "--", "id"])).toMatchObject({ code: 1, out: "", err });

  const { made: other } = await gateway((ws, say) => {
    say(3, failure("Forbidden", 403, { message: "Permission denied", details: { hint: "kubectl describe agent NAME" } }));
    ws.close();
  });
  expect((await other.run(["exec", "a", "--", "id"])).err).toBe("error: Permission denied\nfix:  beige describe agent/a\n");
});
