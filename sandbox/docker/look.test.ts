import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createRawServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLook, type Look } from "./look.ts";

let folder: string;
let path: string;
const ends: (() => void)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-look-"));
  path = join(folder, "engine.sock");
});
afterEach(() => {
  for (const end of ends.splice(0)) end();
  rmSync(folder, { recursive: true, force: true });
});

const listening = async (server: { listen(path: string, done: () => void): unknown }): Promise<void> =>
  new Promise((done) => void server.listen(path, done));

async function serving(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<{ look: Look; server: Server }> {
  const server = createServer(answer);
  const look = createLook(path);
  ends.push(
    () => server.closeAllConnections(),
    () => server.close(),
    () => look.close(),
  );
  await listening(server);
  return { look, server };
}

/** A server that speaks bytes; `talk` gets each connection and the number of it. */
async function speaking(talk: (socket: Socket, nth: number) => void): Promise<Look> {
  const sockets: Socket[] = [];
  const server = createRawServer((socket) => {
    socket.on("error", () => undefined);
    sockets.push(socket);
    talk(socket, sockets.length);
  });
  const look = createLook(path);
  ends.push(
    () => look.close(),
    () => server.close(),
    () => void sockets.map((socket) => socket.destroy()),
  );
  await listening(server);
  return look;
}

const never = new AbortController().signal;
const get = async (look: Look, name: string, signal = never): Promise<string> => (await look.get(name, signal)).toString();
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

test("many questions at once share a few connections, and each gets its own answer", async () => {
  const open = new Set<unknown>();
  const { look } = await serving((request, response) => {
    open.add(request.socket);
    setTimeout(() => response.end(`answer to ${request.url}`), 5);
  });
  const names = Array.from({ length: 50 }, (_, i) => `/c/${i}`);
  expect(await Promise.all(names.map((name) => get(look, name)))).toStrictEqual(names.map((name) => `answer to ${name}`));
  await get(look, "/again");
  expect(open.size).toBe(8);
});

test("a no is an error with its status and the engine's own words", async () => {
  const { look } = await serving((_request, response) => response.writeHead(404).end('{"message":"No such container: x"}'));
  await expect(get(look, "/x")).rejects.toMatchObject({ statusCode: 404, json: { message: "No such container: x" } });
  const refused = await look.get("/x", never).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Error);
});

test("where nobody listens is said as it is", async () => {
  await expect(get(createLook(join(folder, "none.sock")), "/x")).rejects.toMatchObject({ code: "ENOENT" });
});

test("a kept connection that the engine closed meanwhile is replaced unnoticed", async () => {
  const look = await speaking((socket, nth) => {
    // The first one takes the second question to its grave.
    let asked = 0;
    socket.on("data", () => {
      asked += 1;
      if (nth === 1 && asked === 2) socket.destroy();
      else socket.write(OK);
    });
  });
  expect(await get(look, "/1")).toBe("ok");
  expect(await get(look, "/2")).toBe("ok");
});

test("an answer that is cut, an engine that hangs up at once and one that speaks no HTTP fail, and are not asked again", async () => {
  let asked = 0;
  const answers = [OK.slice(0, -1), "", "SSH-2.0-x\r\n\r\n", `${OK}more`, OK];
  const look = await speaking((socket) => {
    socket.on("data", () => {
      socket.end(answers[asked] ?? "");
      asked += 1;
    });
  });
  await expect(get(look, "/1")).rejects.toThrow();
  await expect(get(look, "/2")).rejects.toThrow();
  await expect(get(look, "/3")).rejects.toThrow(/broken/);
  // What follows an answer unasked is no answer to the next question.
  expect(await get(look, "/4")).toBe("ok");
  expect(await get(look, "/5")).toBe("ok");
  expect(asked).toBe(5);
});

test("who does not want an answer any more holds nobody up", async () => {
  const { look } = await serving((request, response) => {
    if (request.url !== "/slow") response.end("quick");
  });
  const abort = new AbortController();
  const slow = Array.from({ length: 12 }, () => get(look, "/slow", abort.signal));
  const quick = get(look, "/quick");
  abort.abort();
  const outcomes = await Promise.allSettled(slow);
  expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
  expect(await quick).toBe("quick");
  await expect(get(look, "/quick", abort.signal)).rejects.toThrow();
});

test("closing fails what is open", async () => {
  const { look } = await serving(() => undefined);
  const open = get(look, "/x");
  setTimeout(() => look.close(), 20);
  await expect(open).rejects.toThrow();
});
