// Protocol buffers by hand: enough to write a document of nested messages, and to read bodies that somebody else wrote.
import { badRequest } from "../status.ts";

/** A message by its fields in the order in which they are written. */
export type Field = readonly [number: number, value: string | Uint8Array | boolean | undefined];

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest % 128) + 128);
  }
}

/** Absent fields are left out. */
export function message(...fields: readonly Field[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const [number, value] of fields) {
    if (value === undefined) continue;
    if (typeof value === "boolean") {
      parts.push(Uint8Array.from([...varint(number * 8), value ? 1 : 0]));
      continue;
    }
    const bytes = typeof value === "string" ? Buffer.from(value, "utf8") : value;
    parts.push(Uint8Array.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes);
  }
  return Buffer.concat(parts);
}

/** What was read of one message: values by field number, in order. */
export interface Parsed {
  bytes(number: number): readonly Uint8Array[];
  text(number: number): string;
  inner(number: number): Parsed;
}

const broken = (why: string) => badRequest(`the protobuf body is broken: ${why}`, "use kubectl apply -f, which sends JSON");
const FIELDS_MAX = 10_000;

/** Throws a 400 for bytes that are no message. Fields that are not bytes are passed over. */
export function parse(bytes: Uint8Array): Parsed {
  const found = new Map<number, Uint8Array[]>();
  let at = 0;
  const number = (): number => {
    let value = 0;
    for (let shift = 0; shift < 10; shift++) {
      const byte = bytes[at++];
      if (byte === undefined) throw broken("it ends inside a number");
      value += (byte & 127) * 128 ** shift;
      if (byte < 128) return value;
    }
    throw broken("a number is too long");
  };
  const take = (count: number): Uint8Array => {
    if (count > bytes.length - at) throw broken("it ends inside a field");
    at += count;
    return bytes.subarray(at - count, at);
  };
  for (let fields = 0; at < bytes.length; fields++) {
    if (fields > FIELDS_MAX) throw broken("it has too many fields");
    const tag = number();
    const type = tag % 8;
    if (type === 0) number();
    else if (type === 1) take(8);
    else if (type === 5) take(4);
    else if (type === 2) {
      const key = Math.floor(tag / 8);
      found.set(key, [...(found.get(key) ?? []), take(number())]);
    } else throw broken(`wire type ${type}`);
  }
  const last = (key: number): Uint8Array => found.get(key)?.at(-1) ?? new Uint8Array();
  return { bytes: (key) => found.get(key) ?? [], text: (key) => utf8(last(key)), inner: (key) => parse(last(key)) };
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw broken("a text is not UTF-8");
  }
}
