// The first words of a TLS client, read just far enough to see which host it means. Pure.

export type Hello =
  | { readonly state: "more" }
  | { readonly state: "bad"; readonly reason: string }
  | { readonly state: "whole"; readonly name?: string; readonly hidden: boolean };

/** A hello with post-quantum keys has about 2 KB; nobody needs more than this. */
export const HELLO_BYTES_MAX = 16 * 1024;

const bad = (reason: string): Hello => ({ state: "bad", reason });
const NOT_TLS = "the client does not speak TLS";
const MALFORMED = "the client's TLS hello is malformed";
const MORE: Hello = { state: "more" };

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const ENCRYPTED_HELLO = 0xfe0d;

/** Walks over bytes; everything behind the end reads as undefined. */
class Cursor {
  readonly #bytes: Uint8Array;
  #at = 0;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }
  get left(): number {
    return this.#bytes.length - this.#at;
  }
  number(size: number): number | undefined {
    const part = this.take(size);
    return part?.reduce((sum, byte) => sum * 256 + byte, 0);
  }
  take(size: number | undefined): Uint8Array | undefined {
    if (size === undefined || size > this.left) return undefined;
    this.#at += size;
    return this.#bytes.subarray(this.#at - size, this.#at);
  }
  /** A part that says its own length first. */
  part(size: number): Uint8Array | undefined {
    return this.take(this.number(size));
  }
}

/** The handshake message over its records; a client may cut it anywhere. */
function handshake(bytes: Uint8Array): Uint8Array | Hello {
  const records = new Cursor(bytes);
  const parts: Uint8Array[] = [];
  let have = 0;
  while (records.left > 0) {
    if (records.number(1) !== HANDSHAKE) return bad(parts.length === 0 ? NOT_TLS : MALFORMED);
    const major = records.number(1);
    if (major === undefined) return MORE;
    if (major !== 3) return bad(NOT_TLS);
    const [, size] = [records.number(1), records.number(2)];
    if (size === undefined) return MORE;
    if (size === 0 || size > HELLO_BYTES_MAX) return bad(MALFORMED);
    const cut = records.take(Math.min(size, records.left)) ?? new Uint8Array();
    parts.push(cut);
    have += cut.length;
    const message = Buffer.concat(parts);
    if (have > 0 && message[0] !== CLIENT_HELLO) return bad(NOT_TLS);
    const wanted = have < 4 ? undefined : 4 + message.readUIntBE(1, 3);
    if (wanted !== undefined && wanted > HELLO_BYTES_MAX) return bad("the client's TLS hello is too long");
    if (wanted !== undefined && have >= wanted) return message.subarray(4, wanted);
    if (cut.length < size) return MORE;
  }
  return MORE;
}

/** Undefined for a list that is not exactly one host name. */
function nameIn(extension: Uint8Array): string | undefined {
  const outer = new Cursor(extension);
  const list = outer.part(2);
  if (list === undefined || outer.left > 0) return undefined;
  const names = new Cursor(list);
  const [type, name] = [names.number(1), names.part(2)];
  if (type !== 0 || name === undefined || names.left > 0) return undefined;
  const text = Buffer.from(name).toString("latin1");
  return /^[A-Za-z0-9._-]{1,253}$/.test(text) ? text.toLowerCase() : undefined;
}

export function readHello(bytes: Uint8Array): Hello {
  const message = handshake(bytes);
  if (!(message instanceof Uint8Array)) return message.state === "more" && bytes.length >= HELLO_BYTES_MAX ? bad(MALFORMED) : message;
  const hello = new Cursor(message);
  // Version and random, then session id, cipher suites and compression methods.
  const before = [hello.take(34), hello.part(1), hello.part(2), hello.part(1)];
  if (before.includes(undefined)) return bad(MALFORMED);
  if (hello.left === 0) return { state: "whole", hidden: false };
  const list = hello.part(2);
  if (list === undefined || hello.left > 0) return bad(MALFORMED);
  const extensions = new Cursor(list);
  let name: string | undefined;
  let hidden = false;
  while (extensions.left > 0) {
    const [type, body] = [extensions.number(2), extensions.part(2)];
    if (type === undefined || body === undefined) return bad(MALFORMED);
    if (type === ENCRYPTED_HELLO) hidden = true;
    if (type !== SERVER_NAME) continue;
    if (name !== undefined) return bad(MALFORMED);
    name = nameIn(body);
    if (name === undefined) return bad(MALFORMED);
  }
  return { state: "whole", hidden, ...(name === undefined ? {} : { name }) };
}
