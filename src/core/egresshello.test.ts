import { connect } from "node:tls";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import fc from "fast-check";
import { expect, test } from "vitest";
import { HELLO_BYTES_MAX, readHello } from "./egresshello.ts";

/** What this machine's TLS really sends. */
async function realHello(servername: string): Promise<Buffer> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect({ host: "127.0.0.1", port: (server.address() as AddressInfo).port, servername });
  client.on("error", () => undefined);
  const [socket] = (await once(server, "connection")) as [import("node:net").Socket];
  const [bytes] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** The same handshake in records of so many bytes. */
function split(bytes: Buffer, size: number): Buffer {
  const body = bytes.subarray(5);
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += size) {
    const part = body.subarray(at, at + size);
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(parts);
}

function withExtension(type: number, body: Buffer): Buffer {
  const extension = Buffer.concat([Buffer.from([type >> 8, type & 255, body.length >> 8, body.length & 255]), body]);
  const list = Buffer.concat([Buffer.from([extension.length >> 8, extension.length & 255]), extension]);
  const message = Buffer.concat([Buffer.from([3, 3]), Buffer.alloc(32), Buffer.from([0, 0, 2, 0x13, 1, 1, 0]), list]);
  const whole = Buffer.concat([Buffer.from([1, 0, message.length >> 8, message.length & 255]), message]);
  return Buffer.concat([Buffer.from([22, 3, 1, whole.length >> 8, whole.length & 255]), whole]);
}

test("a real hello names its host, whole, byte by byte, and in small records", async () => {
  const bytes = await realHello("Api.Example.com");
  expect(readHello(bytes)).toEqual({ state: "whole", hidden: false, name: "api.example.com" });
  expect(readHello(split(bytes, 7))).toMatchObject({ name: "api.example.com" });
  for (let size = 0; size < bytes.length; size++) expect(readHello(bytes.subarray(0, size)).state).toBe("more");
  expect(readHello(Buffer.concat([bytes, Buffer.from("more")]))).toMatchObject({ name: "api.example.com" });
  expect(await realHello("").then(readHello)).toEqual({ state: "whole", hidden: false });
});

test("what is no TLS, two names, or a hidden name is told", () => {
  expect(readHello(Buffer.from("GET / HTTP/1.1\r\n"))).toMatchObject({ state: "bad" });
  expect(readHello(Buffer.from("SSH-2.0-x"))).toMatchObject({ state: "bad" });
  const name = (...hosts: string[]): Buffer => {
    const list = Buffer.concat(hosts.map((host) => Buffer.concat([Buffer.from([0, 0, host.length]), Buffer.from(host)])));
    return Buffer.concat([Buffer.from([0, list.length]), list]);
  };
  expect(readHello(withExtension(0, name("a.dev")))).toEqual({ state: "whole", hidden: false, name: "a.dev" });
  for (const bad of [name("a.dev", "b.dev"), name("a.dev\0"), name(""), Buffer.alloc(0)])
    expect(readHello(withExtension(0, bad)).state).toBe("bad");
  expect(readHello(withExtension(0xfe0d, Buffer.alloc(4)))).toEqual({ state: "whole", hidden: true });
});

test("a hello that never ends is not waited for", () => {
  const huge = Buffer.concat([Buffer.from([22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff]), Buffer.alloc(HELLO_BYTES_MAX)]);
  expect(readHello(huge).state).toBe("bad");
});

test("no bytes make it throw, and it asks for more within bounds only", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, tls) => {
      const given = tls ? Buffer.concat([Buffer.from([22, 3, 1]), bytes]) : bytes;
      expect(["more", "bad", "whole"]).toContain(readHello(given).state);
    }),
    { numRuns: 3000 },
  );
});
