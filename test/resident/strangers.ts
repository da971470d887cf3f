// Strangers at the socket where a supervisor is awaited: random bytes, and the right words with something wrong, among them the right ones.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { systemClock } from "../../src/adapters/clock.ts";
import { awaitDial } from "../../sandbox/resident/dial.ts";
import { encode, WHO } from "../../sandbox/resident/frames.ts";
import type { Carrier } from "../../sandbox/resident/greet.ts";
import type { Fuzzed } from "./fuzz.ts";
import { cutUp, dice, mend, type Dice } from "./mutate.ts";

const TOKEN = Buffer.from("for the right one alone");
const STRANGERS_MAX = 12;
/** Bytes of a head that have to be as they are, whatever its checksum says: magic, type and length. */
const NEEDED = [0, 1, 2, 3, 4, 12, 13, 14, 15];

/** The frame by which a supervisor shows its secret. */
export function who(secret: Buffer): Buffer {
  const frame = encode({ type: "P", sess: 1 });
  frame[4] = 0x77;
  frame.writeUInt32LE(secret.length, 12);
  frame.writeUInt32LE(0, 28);
  frame.writeUInt32LE(crc32(frame), 28);
  return Buffer.concat([frame, secret]);
}

interface Guest {
  readonly socket: Socket;
  heard: Buffer;
  readonly closed: Promise<void>;
}

function come(path: string, says: Buffer, roll: Dice): Guest {
  const socket = connect(path);
  const guest: Guest = { socket, heard: Buffer.alloc(0), closed: new Promise((done) => socket.once("close", () => done())) };
  socket.on("error", () => undefined).on("data", (data: Buffer) => (guest.heard = Buffer.concat([guest.heard, data])));
  socket.once("connect", () => {
    for (const part of cutUp(says, roll)) socket.write(part);
    if (says.length < WHO && roll(2) === 0) socket.end();
  });
  return guest;
}

/** Never the right words: nobody else can know all of the secret. */
function lie(secret: Buffer, roll: Dice): Buffer {
  const right = who(secret);
  const kind = roll(6);
  if (kind === 0) return Buffer.from(Array.from({ length: roll(300) }, () => roll(256)));
  if (kind === 1) return right.subarray(0, roll(right.length));
  if (kind === 2) return who(Buffer.from(Array.from({ length: roll(4) === 0 ? roll(64) : secret.length }, () => roll(256))));
  const at = kind === 3 ? 32 + roll(secret.length) : kind === 4 ? (NEEDED[roll(NEEDED.length)] ?? 0) : roll(right.length);
  right[at] = (right[at] ?? 0) ^ (1 << roll(8));
  return kind === 4 ? Buffer.concat([mend(right, "head"), Buffer.alloc(roll(50), roll(256))]) : right;
}

async function wrongWith(carrier: Carrier | undefined, honest: Guest, strangers: readonly Guest[]): Promise<string | undefined> {
  if (carrier === undefined) return "the supervisor was not let in";
  const gone = Promise.withResolvers<void>();
  carrier.start({ data: () => undefined, close: () => gone.resolve() });
  carrier.write(TOKEN);
  await Promise.all(strangers.map(({ closed }) => closed));
  while (honest.heard.length < TOKEN.length && !honest.socket.destroyed) await new Promise((done) => setImmediate(done));
  carrier.destroy();
  await Promise.all([honest.closed, gone.promise]);
  if (!honest.heard.equals(TOKEN)) return `the supervisor heard ${honest.heard.length} bytes`;
  const heard = strangers.find((one) => one.heard.length > 0);
  return heard === undefined ? undefined : `a stranger heard ${heard.heard.length} bytes`;
}

async function oneDoor(path: string, roll: Dice): Promise<{ readonly why: string | undefined; readonly said: Buffer }> {
  const secret = randomBytes(16);
  const lies = Array.from({ length: roll(STRANGERS_MAX) }, () => lie(secret, roll));
  const place = roll(lies.length + 1);
  let honest: Guest | undefined;
  const strangers: Guest[] = [];
  const say = (): void => {
    if (honest !== undefined) return;
    strangers.push(...lies.slice(0, place).map((each) => come(path, each, roll)));
    honest = come(path, who(secret), roll);
    strangers.push(...lies.slice(place).map((each) => come(path, each, roll)));
  };
  const carrier = await awaitDial({ place: { path, inside: path }, say, secret, clock: systemClock, signal: new AbortController().signal });
  const why = honest === undefined ? "nobody was told where to come" : await wrongWith(carrier, honest, strangers);
  for (const one of strangers) one.socket.destroy();
  return { why, said: Buffer.concat(lies) };
}

/** Dials: whoever else comes, and whatever they say, the supervisor alone is let in and spoken to. */
export async function fuzzDial(seconds: number, seed: number): Promise<Fuzzed> {
  const folder = mkdtempSync(join(tmpdir(), "beige-dial-"));
  const until = performance.now() + seconds * 1000;
  let streams = 0;
  let failure: Fuzzed["failure"];
  const lane = async (name: string): Promise<void> => {
    while (performance.now() < until && failure === undefined) {
      const mine = seed + streams++;
      const { why, said } = await oneDoor(join(folder, name), dice(mine));
      if (why !== undefined) failure = { why, stream: said, seed: mine };
    }
  };
  try {
    await Promise.all(Array.from({ length: 4 }, (_, i) => lane(`s${i}`)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return failure === undefined ? { streams } : { streams, failure };
}
