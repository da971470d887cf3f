// What of the host must not be reached: ports on every address, and a neighbour on the engine's bridge. All count who came.
import { spawnSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { connect, createServer, type AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";

export interface Host {
  readonly port: number;
  readonly address: string;
  readonly bridge: string;
  readonly other: string;
  /** Of a listener on the host's loopback alone. */
  readonly inner: number;
  /** Connections and datagrams that came from anywhere but this test. */
  readonly visits: () => number;
  /** The script with the names of these in their places. */
  fill(script: string): string;
  close(): void;
}

const docker = (...args: string[]): string => spawnSync("docker", args, { encoding: "utf8" }).stdout.trim();
const ADDRESS = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";

function reads(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 500 });
    let text = "";
    socket.on("data", (data: Buffer) => (text += data.toString()));
    socket.on("timeout", () => socket.destroy()).on("error", () => undefined);
    socket.on("close", () => resolve(text));
  });
}

/** Another container, that says its secret to whoever can reach it: this host can. */
async function neighbour(): Promise<{ readonly id: string; readonly address: string }> {
  const serve = "while :; do echo secret-of-the-other | nc -l -p 7777; done";
  const id = docker("run", "-d", "--network", "bridge", "beige-tiny:1", "sh", "-c", serve);
  const address = docker("inspect", "-f", ADDRESS, id);
  for (let look = 0; look < 20; look++) {
    if ((await reads(address, 7777)).includes("secret-of-the-other")) return { id, address };
    await new Promise((done) => setTimeout(done, 100));
  }
  docker("rm", "-f", id);
  throw new Error("the neighbour cannot be reached by the host itself: the attempt would say nothing");
}

export async function openHost(): Promise<Host> {
  let visits = 0;
  const server = createServer((socket) => {
    visits += 1;
    socket.end("a port of the host\n");
  });
  await new Promise<void>((done) => server.listen(0, "::", done));
  const { port } = server.address() as AddressInfo;
  const loopback = createServer((socket) => {
    visits += 1;
    socket.end("a port of the host\n");
  });
  await new Promise<void>((done) => loopback.listen(0, "127.0.0.1", done));
  const inner = (loopback.address() as AddressInfo).port;
  // In the network's namespace and not on the disk: a sandbox that shares the host's network would have it.
  const nameless = createServer(() => (visits += 1));
  await new Promise<void>((done) => nameless.listen(`\0beige-escape-${port}`, done));
  const datagrams = createSocket("udp4").on("message", () => (visits += 1));
  await new Promise<void>((done) => datagrams.bind(port, "0.0.0.0", done));
  const all = Object.entries(networkInterfaces()).flatMap(([name, list]) => (list ?? []).map((one) => ({ name, ...one })));
  const own = all.filter(({ family, internal }) => family === "IPv4" && !internal);
  const bridge = own.find(({ name }) => name === "docker0")?.address ?? "172.17.0.1";
  const address = own.find(({ name }) => name !== "docker0")?.address ?? bridge;
  const other = await neighbour();
  const words: Readonly<Record<string, string>> = {
    HOST: address,
    BRIDGE: bridge,
    OTHER: other.address,
    PORT: String(port),
    INNER: String(inner),
  };
  return {
    port,
    address,
    bridge,
    other: other.address,
    inner,
    visits: () => visits,
    fill: (script) => script.replaceAll(/\b(?:HOST|BRIDGE|OTHER|INNER)\b|PORT\b/g, (word) => words[word] ?? word),
    close() {
      docker("rm", "-f", other.id);
      server.close();
      loopback.close();
      nameless.close();
      datagrams.close();
    },
  };
}
