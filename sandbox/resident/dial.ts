// Lets the supervisor of a sandbox come to a socket in the sandbox's own folder: whoever shows the secret is it, others are told nothing.
import { timingSafeEqual } from "node:crypto";
import { chmod, chown, lstat, unlink } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../src/core/world.ts";
import { readWho, WHO } from "./frames.ts";
import type { Carrier } from "./greet.ts";

/** A supervisor of an older version does not know the word, and never comes. */
const AWAIT_MS = 1500;
/** Said again: a crowd at the socket may have kept it away. */
const AGAIN_MS = 250;
/** Whoever comes has so long to show the secret; the oldest goes when there are more. */
const PROVE_MS = 500;
const UNPROVEN_MAX = 16;
const BACKLOG = 64;
/** A longer path does not fit into the address of a unix socket. */
const PATH_MAX = 107;

/** Where a supervisor can be met. */
export interface Place {
  readonly path: string;
  /** The same socket as the sandbox sees it. */
  readonly inside: string;
  /** Whose socket it is to be; the gateway's own user when absent. */
  readonly owner?: { readonly uid: number; readonly gid: number };
}

export interface Dialling {
  readonly place: Place;
  /** Tells the supervisor where to dial, and what to show. */
  readonly say: (body: Buffer) => void;
  readonly secret: Buffer;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

function carrierOf(socket: Socket): Carrier {
  return {
    write: (data) => {
      if (!socket.destroyed) socket.write(data);
    },
    start(on) {
      socket.on("data", (chunk) => on.data(chunk)).on("close", () => on.close());
      socket.resume();
    },
    destroy: () => void socket.destroy(),
  };
}

async function listen(server: Server, { path, owner }: Place): Promise<void> {
  const left = await lstat(path).catch(() => undefined);
  // Of a gateway that was killed while it waited.
  if (left?.isSocket() === true) await unlink(path);
  await new Promise<void>((done, fail) => {
    server.once("error", fail);
    server.listen({ path, backlog: BACKLOG }, done);
  });
  await chmod(path, 0o600);
  if (owner !== undefined && owner.uid !== process.getuid?.()) await chown(path, owner.uid, owner.gid);
}

/** Calls `proven` for a connection that shows the secret and nothing else; all others end without a word. */
function judge(socket: Socket, { secret, clock }: Dialling, proven: (socket: Socket) => void): void {
  const late = clock.after(PROVE_MS, () => socket.destroy());
  let came: Buffer = Buffer.alloc(0);
  const take = (chunk: Buffer): void => {
    came = Buffer.concat([came, chunk.subarray(0, WHO + 1 - came.length)]);
    if (came.length < WHO) return;
    const shown = came.length === WHO ? readWho(came) : undefined;
    if (shown === undefined || !timingSafeEqual(shown, secret)) return void socket.destroy();
    socket.off("data", take).pause();
    late.cancel();
    proven(socket);
  };
  socket.on("error", () => undefined).on("data", take);
  socket.once("close", () => late.cancel());
}

/** The connection of the supervisor; undefined when it does not come in time, or cannot. Never rejects. */
export async function awaitDial(dialling: Dialling): Promise<Carrier | undefined> {
  const { place, secret, clock, signal } = dialling;
  if (Buffer.byteLength(place.path) > PATH_MAX || Buffer.byteLength(place.inside) > PATH_MAX || signal.aborted) return undefined;
  const found = Promise.withResolvers<Socket | undefined>();
  const waiting = new Set<Socket>();
  const server = createServer((socket) => {
    waiting.add(socket);
    socket.once("close", () => waiting.delete(socket));
    if (waiting.size > UNPROVEN_MAX) waiting.values().next().value?.destroy();
    judge(socket, dialling, found.resolve);
  });
  server.on("error", () => found.resolve(undefined));
  const timer = clock.after(AWAIT_MS, () => found.resolve(undefined));
  const give = (): void => found.resolve(undefined);
  signal.addEventListener("abort", give, { once: true });
  let again: { cancel(): void } | undefined;
  const say = (): void => {
    dialling.say(Buffer.concat([secret, Buffer.from(place.inside)]));
    again = clock.after(AGAIN_MS, say);
  };
  await listen(server, place).then(say, () => found.resolve(undefined));
  const socket = await found.promise;
  again?.cancel();
  timer.cancel();
  signal.removeEventListener("abort", give);
  server.close();
  for (const one of waiting) if (one !== socket) one.destroy();
  return socket === undefined || socket.destroyed ? undefined : carrierOf(socket);
}
