// CONNECT: bytes both ways once the client's TLS hello names the very host it asked for.
import type { Socket } from "node:net";
import { HELLO_BYTES_MAX, readHello } from "../../core/egresshello.ts";
import type { Target } from "../../core/egress.ts";
import type { Clock } from "../../core/world.ts";
import type { Passage } from "./passage.ts";

/** The client's first bytes, at most one hello and what came with it. */
function firstBytes(
  socket: Socket,
  head: Buffer,
  limit: { readonly clock: Pick<Clock, "after">; readonly ms: number },
): Promise<Buffer | string> {
  return new Promise((done) => {
    let bytes: Buffer = head;
    const timer = limit.clock.after(limit.ms, () => end("the client sent no TLS hello in time"));
    const end = (result: Buffer | string): void => {
      timer.cancel();
      socket.off("data", take).off("end", gone).off("close", gone);
      socket.pause();
      done(result);
    };
    const gone = (): void => end("the client left before its TLS hello");
    const judge = (): void => {
      const hello = readHello(bytes);
      if (hello.state === "bad") end(hello.reason);
      else if (hello.state === "whole") end(bytes);
      else if (bytes.length > 2 * HELLO_BYTES_MAX) end("the client's TLS hello is too long");
    };
    const take = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk]);
      judge();
    };
    socket.on("data", take).once("end", gone).once("close", gone);
    judge();
  });
}

/** Why the hello is not for the host that was asked for; undefined when it is. */
export function helloRefusal(bytes: Uint8Array, target: Pick<Target, "host" | "literal">): string | undefined {
  const hello = readHello(bytes);
  if (hello.state !== "whole") return "the client's TLS hello is malformed";
  if (hello.hidden) return "the client's TLS hello hides its host (ECH)";
  if (hello.name === undefined) return target.literal ? undefined : "the client's TLS hello names no host";
  return hello.name === target.host ? undefined : `the client's TLS hello names ${hello.name}, not ${target.host}`;
}

/** Each end hears of the other's end; what was written before it still arrives. */
function join(client: Socket, upstream: Socket, passage: Passage): void {
  client.on("error", () => upstream.destroy());
  client.once("close", () => {
    upstream.destroy();
    passage.finish();
  });
  upstream.once("error", (error) => {
    client.destroy();
    passage.finish({ error: error.message });
  });
  upstream.once("close", () => {
    if (upstream.readableEnded) client.end();
    else client.destroy();
    passage.finish();
  });
  client.pipe(upstream);
  upstream.pipe(client);
}

export const ESTABLISHED = "HTTP/1.1 200 Connection Established\r\n\r\n";

export async function tunnel(
  ends: { readonly client: Socket; readonly head: Buffer; readonly upstream: Socket },
  passage: Passage,
  limit: { readonly clock: Pick<Clock, "after">; readonly ms: number },
): Promise<void> {
  const { client, head, upstream } = ends;
  client.write(ESTABLISHED);
  const bytes = await firstBytes(client, head, limit);
  const refusal = typeof bytes === "string" ? bytes : helloRefusal(bytes, passage.target);
  if (refusal !== undefined || typeof bytes === "string") {
    client.destroy();
    passage.finish({ error: refusal ?? "no hello", denied: true });
    return;
  }
  upstream.write(bytes);
  join(client, upstream, passage);
}
