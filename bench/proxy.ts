// A unix socket in front of the Docker engine that passes everything on and counts what would change something.
import { createServer, request, type IncomingMessage } from "node:http";
import { connect } from "node:net";

export interface CountingProxy {
  /** Method and path of every request that is neither a GET nor a HEAD, nor belongs to an exec. */
  readonly writes: readonly string[];
  readonly reads: () => number;
  close(): Promise<void>;
}

const EXEC = /\/exec(\/[0-9a-f]+\/(start|resize|json))?$|\/containers\/[^/]+\/exec$/;

function headText(asked: IncomingMessage): string {
  const lines = [`${asked.method} ${asked.url} HTTP/1.1`];
  for (let i = 0; i < asked.rawHeaders.length; i += 2) lines.push(`${asked.rawHeaders[i]}: ${asked.rawHeaders[i + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

export async function countingProxy(path: string, engine: string): Promise<CountingProxy> {
  const writes: string[] = [];
  let reads = 0;
  const note = (asked: IncomingMessage): void => {
    const where = (asked.url ?? "").split("?", 1)[0] ?? "";
    if (asked.method === "GET" || asked.method === "HEAD") reads += 1;
    else if (!EXEC.test(where)) writes.push(`${asked.method} ${where}`);
  };
  const server = createServer((asked, answer) => {
    note(asked);
    const { method, url, headers } = asked;
    const on = request({ socketPath: engine, method, path: url, headers }, (said) => {
      answer.writeHead(said.statusCode ?? 502, said.headers);
      answer.flushHeaders();
      said.pipe(answer);
    });
    on.on("error", () => answer.destroy());
    answer.on("close", () => on.destroy());
    asked.pipe(on);
  });
  // An exec takes the connection over: from then on it is bytes both ways.
  server.on("upgrade", (asked, socket, head) => {
    note(asked);
    const on = connect(engine, () => {
      on.write(headText(asked));
      on.write(head);
      on.pipe(socket).pipe(on);
    });
    on.on("error", () => socket.destroy());
    socket.on("error", () => on.destroy());
  });
  await new Promise<void>((done) => server.listen(path, done));
  return {
    writes,
    reads: () => reads,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
