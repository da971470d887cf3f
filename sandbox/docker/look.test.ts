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

test.each([
  [404, "404 page not found"],
  [404, "<html>nothing here</html>"],
  [404, ""],
  [404, "null"],
  [404, '{"error":"no such route"}'],
  [404, '{"message":5}'],
  [503, "<html>busy</html>"],
])("a %s that something between says (%j) tells nothing of what the engine has", async (status, body) => {
  const { look } = await serving((_request, response) => response.writeHead(status).end(body));
  const refused = await look.get("/containers/x/json", never).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Error);
  expect(refused).not.toHaveProperty("statusCode");
});

test("a body in more pieces than any engine makes is given up", async () => {
  const look = await speaking((socket) => {
    socket.on("data", () => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      const pieces = Buffer.from("1\r\nx\r\n".repeat(10_000));
      for (let i = 0; i < 30; i += 1) socket.write(pieces);
    });
  });
  await expect(get(look, "/x")).rejects.toThrow("the answer is too long");
});

/** What a proxy between may make of an answer; each gets the socket, the right answer and its body. */
const MANGLED: Readonly<Record<string, (socket: Socket, whole: string, body: string) => void>> = {
  right: (socket, whole) => socket.write(whole),
  "byte by byte": (socket, whole) => {
    for (const byte of Buffer.from(whole)) socket.write(Uint8Array.of(byte));
  },
  "with an interim answer": (socket, whole) => socket.write(`HTTP/1.1 102 Wait\r\n\r\n${whole}`),
  chunked: (socket, _, body) => {
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (const sign of body) socket.write(`1\r\n${sign}\r\n`);
    socket.write("0\r\n\r\n");
  },
  "right, then closed": (socket, whole) => socket.end(whole),
  "cut in its head": (socket, whole) => socket.end(whole.slice(0, 20)),
  "cut in its body": (socket, whole) => socket.end(whole.slice(0, -2)),
  "closed at once": (socket) => socket.destroy(),
  "longer than it says": (socket, whole) => socket.write(whole.replace(/Length: \d+/, "Length: 4")),
  "shorter than it says": (socket, whole) => socket.write(whole.replace(/Length: \d+/, "Length: 4000")),
  twice: (socket, whole) => socket.write(whole + whole),
  "with a second one of somebody else": (socket, whole) => socket.write(`${whole}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n/other`),
  "with two lengths": (socket, whole) => socket.write(whole.replace(/(Content-Length: )\d+/, "$13\r\n$&")),
  "with no length": (socket, _, body) => socket.write(`HTTP/1.1 200 OK\r\n\r\n${body}`),
};

test("whatever comes between, an answer is the right one or none, and nobody else's question suffers", { timeout: 30_000 }, async () => {
  const names = Object.keys(MANGLED);
  const look = await speaking((socket) => {
    let held = "";
    socket.on("data", (part) => {
      held += part.toString();
      for (let end = held.indexOf("\r\n\r\n"); end >= 0; end = held.indexOf("\r\n\r\n")) {
        const path = held.split(" ", 2)[1] ?? "";
        held = held.slice(end + 4);
        const way = MANGLED[decodeURIComponent(path.split("/")[1] ?? "")];
        way?.(socket, `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`, path);
      }
    });
  });
  const told: Record<string, Set<string>> = {};
  const ask = async (name: string, nth: number): Promise<void> => {
    const path = `/${encodeURIComponent(name)}/${nth}`;
    const said = await get(look, path, AbortSignal.timeout(name === "shorter than it says" ? 200 : 5_000)).catch(() => "none");
    (told[name] ??= new Set()).add(said === path ? "right" : said);
  };
  await Promise.all(Array.from({ length: 20 }, (_, nth) => names.map((name) => ask(name, nth))).flat());
  for (const name of ["right", "byte by byte", "with an interim answer", "chunked", "right, then closed"])
    expect([name, [...(told[name] ?? [])]]).toEqual([name, ["right"]]);
  for (const name of ["cut in its head", "cut in its body", "closed at once", "shorter than it says", "with no length", "with two lengths"])
    expect([name, [...(told[name] ?? [])]]).toEqual([name, ["none"]]);
  // What stands before the end that was told is all of the answer: it is no JSON then.
  expect([...(told["longer than it says"] ?? [])]).toEqual(["/lon"]);
  for (const name of ["twice", "with a second one of somebody else"]) expect([name, [...(told[name] ?? [])]]).toEqual([name, ["right"]]);
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
