// Writes the pieces of X.509 certificates as DER.

/** DER: tag, length, content. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const size = content.length;
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255];
  return Buffer.concat([Uint8Array.of(tag, ...length), content]);
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
export const octets = (...parts: readonly Uint8Array[]): Buffer => der(0x04, ...parts);
export const TRUE = der(0x01, Uint8Array.of(255));

/** Dotted numbers as DER writes them: the first two share a byte, the others are base 128. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = rest.flatMap((number) => {
    const groups = [number & 127];
    for (let left = number >> 7; left > 0; left >>= 7) groups.unshift((left & 127) | 128);
    return groups;
  });
  return der(0x06, Uint8Array.of(first * 40 + second, ...bytes));
}

/** Two digits of the year until 2050, four afterwards, as RFC 5280 wants it. */
export function time(ms: number): Buffer {
  const digits = `${new Date(ms).toISOString().replaceAll(/[-:T]/g, "").slice(0, 14)}Z`;
  return Number(digits.slice(0, 4)) < 2050 ? der(0x17, Buffer.from(digits.slice(2))) : der(0x18, Buffer.from(digits));
}

/** A distinguished name of a common name alone. */
export const named = (text: string): Buffer => sequence(der(0x31, sequence(oid("2.5.4.3"), der(0x0c, Buffer.from(text)))));
export const ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"));

export const extension = (id: string, critical: boolean, value: Uint8Array): Buffer =>
  sequence(oid(id), ...(critical ? [TRUE] : []), octets(value));

export const pem = (label: string, bytes: Uint8Array): string =>
  `-----BEGIN ${label}-----\n${(
    Buffer.from(bytes)
      .toString("base64")
      .match(/.{1,64}/g) ?? []
  ).join("\n")}\n-----END ${label}-----\n`;
