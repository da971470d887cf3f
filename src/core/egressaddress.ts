// Internet addresses as bytes, and which of them belong to the public internet. Pure.

export type Bytes = readonly number[];

const DECIMAL = /^(0|[1-9][0-9]{0,2})$/;

/** Four plain decimal numbers; no octal, no hexadecimal, no shorter forms. */
function parseV4(text: string): Bytes | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => DECIMAL.test(part) && Number(part) <= 255)) return undefined;
  return parts.map(Number);
}

function groups(text: string): readonly number[] | undefined {
  if (text === "") return [];
  const parts = text.split(":");
  const last = parts.at(-1) ?? "";
  const tail = last.includes(".") ? parseV4(last) : [];
  if (tail === undefined) return undefined;
  const words = last.includes(".") ? parts.slice(0, -1) : parts;
  if (!words.every((word) => /^[0-9a-f]{1,4}$/i.test(word))) return undefined;
  return [...words.flatMap((word) => [Number.parseInt(word, 16) >> 8, Number.parseInt(word, 16) & 255]), ...tail];
}

function parseV6(text: string): Bytes | undefined {
  if (text.length > 45 || !text.includes(":")) return undefined;
  const halves = text.split("::");
  const [before, after] = [groups(halves[0] ?? ""), groups(halves[1] ?? "")];
  if (halves.length > 2 || before === undefined || after === undefined) return undefined;
  // An address with dots before the gap would have them in the middle.
  if (halves.length === 2 && (halves[0] ?? "").includes(".")) return undefined;
  const missing = 16 - before.length - after.length;
  if (halves.length === 1 ? missing !== 0 : missing < 2) return undefined;
  return [...before, ...Array<number>(Math.max(0, missing)).fill(0), ...after];
}

/** 4 or 16 bytes of an address in its usual form, without zone and brackets; undefined for anything else. */
export const parseAddress = (text: string): Bytes | undefined => (text.includes(":") ? parseV6(text) : parseV4(text));

interface Range {
  readonly bytes: Bytes;
  readonly bits: number;
  readonly what: string;
}

function range(text: string, what: string): Range {
  const [address = "", bits] = text.split("/");
  return { bytes: parseAddress(address) ?? [], bits: Number(bits), what };
}

const RANGES: readonly Range[] = [
  range("0.0.0.0/8", "unspecified"),
  range("10.0.0.0/8", "private"),
  range("100.64.0.0/10", "carrier-grade NAT"),
  range("127.0.0.0/8", "loopback"),
  range("168.63.129.16/32", "metadata"),
  range("169.254.169.254/32", "metadata"),
  range("169.254.0.0/16", "link-local"),
  range("172.16.0.0/12", "private"),
  range("192.0.0.0/24", "reserved"),
  range("192.0.2.0/24", "documentation"),
  range("192.88.99.0/24", "reserved"),
  range("192.168.0.0/16", "private"),
  range("198.18.0.0/15", "benchmark"),
  range("198.51.100.0/24", "documentation"),
  range("203.0.113.0/24", "documentation"),
  range("224.0.0.0/4", "multicast"),
  range("240.0.0.0/4", "reserved"),
  range("::/128", "unspecified"),
  range("::1/128", "loopback"),
  range("fd00:ec2::254/128", "metadata"),
  range("fc00::/7", "private"),
  range("fe80::/10", "link-local"),
  range("ff00::/8", "multicast"),
  range("2001::/23", "reserved"),
  range("2001:db8::/32", "documentation"),
  range("2002::/16", "reserved"),
  range("3fff::/20", "documentation"),
];

/** The only part of IPv6 from which public addresses are given out. */
const GLOBAL = range("2000::/3", "");
/** An IPv4 address in IPv6 clothes: the last four bytes count. */
const WRAPPED: readonly Range[] = [range("::ffff:0:0/96", ""), range("64:ff9b::/96", "")];

function inside(bytes: Bytes, { bytes: start, bits }: Range): boolean {
  if (bytes.length !== start.length) return false;
  for (let i = 0; i * 8 < bits; i++) {
    const mask = bits - i * 8 >= 8 ? 255 : 256 - 2 ** (8 - (bits - i * 8));
    if (((bytes[i] ?? 0) & mask) !== ((start[i] ?? 0) & mask)) return false;
  }
  return true;
}

/** Why an address is not of the public internet, in a word; undefined when it is. What cannot be read is not. */
export function notPublic(address: string): string | undefined {
  const bytes = parseAddress(address);
  if (bytes === undefined) return "unreadable";
  const plain = WRAPPED.some((one) => inside(bytes, one)) ? bytes.slice(12) : bytes;
  const found = RANGES.find((one) => inside(plain, one));
  if (found !== undefined) return found.what;
  return plain.length === 16 && !inside(plain, GLOBAL) ? "reserved" : undefined;
}

/** No connection goes there, whatever a manifest or the operator says. */
export const isNowhere = (why: string): boolean => ["unspecified", "multicast", "unreadable"].includes(why);
