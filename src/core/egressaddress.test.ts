import { isIP } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { notPublic, parseAddress } from "./egressaddress.ts";

const octet = fc.integer({ min: 0, max: 255 });
const v4 = fc.tuple(octet, octet, octet, octet).map((parts) => parts.join("."));

/** Written anew from the registries, as ranges of numbers. */
function privateV4(text: string): boolean {
  const [a = 0, b = 0, c = 0, d = 0] = text.split(".").map(Number);
  if ([0, 10, 127].includes(a) || a >= 224) return true;
  if (a === 100) return b >= 64 && b <= 127;
  if (a === 168 && b === 63) return c === 129 && d === 16;
  if (a === 169) return b === 254;
  if (a === 172) return b >= 16 && b <= 31;
  if (a === 192) return b === 168 || (b === 0 && (c === 0 || c === 2)) || (b === 88 && c === 99);
  if (a === 198) return b === 18 || b === 19 || (b === 51 && c === 100);
  return a === 203 && b === 0 && c === 113;
}

const hex = (text: string): string => {
  const [a = 0, b = 0, c = 0, d = 0] = text.split(".").map(Number);
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
};

test("no address of a private range passes, in whichever clothes", () => {
  const special = fc.constantFrom(
    "127.0.0.1",
    "169.254.169.254",
    "10.0.0.1",
    "100.100.100.200",
    "172.31.255.255",
    "192.168.0.1",
    "0.0.0.0",
    "168.63.129.16",
  );
  fc.assert(
    fc.property(fc.oneof(v4, special), (address) => {
      const wanted = !privateV4(address);
      for (const written of [
        address,
        `::ffff:${address}`,
        `::ffff:${hex(address)}`,
        `0:0:0:0:0:ffff:${hex(address)}`,
        `64:ff9b::${hex(address)}`,
      ])
        expect([written, notPublic(written) === undefined]).toEqual([written, wanted]);
      // Older and local ways to carry one address in another are never public.
      for (const written of [`::${address}`, `2002:${hex(address)}::1`, `64:ff9b:1::${hex(address)}`, `2001:0:1:2:3:4:${hex(address)}`])
        expect([written, notPublic(written) === undefined]).toEqual([written, false]);
    }),
    { numRuns: 2000 },
  );
});

test("only global unicast of IPv6 passes", () => {
  for (const no of [
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "3fff::1",
    "4000::1",
    "100::1",
    "fec0::1",
  ])
    expect([no, notPublic(no) === undefined]).toEqual([no, false]);
  for (const yes of ["2606:4700::6810:84e5", "2a00:1450:4001:81b::200e", "2620:fe::fe"])
    expect([yes, notPublic(yes)]).toEqual([yes, undefined]);
});

test("what is read as an address is one, and nothing else is", () => {
  fc.assert(
    fc.property(fc.oneof(v4, fc.ipV4(), fc.ipV6(), fc.string(), fc.stringMatching(/^[0-9a-fx:.]{0,30}$/)), (text) => {
      const bytes = parseAddress(text);
      const family = text.includes("%") ? 0 : isIP(text);
      expect([text, bytes?.length ?? 0]).toEqual([text, family === 4 ? 4 : family === 6 ? 16 : 0]);
    }),
    { numRuns: 5000 },
  );
  for (const no of ["127.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "127.0.0.01", "1.2.3.4.5", "::1%lo", "[::1]", "", "1::2::3"])
    expect([no, parseAddress(no), notPublic(no)]).toEqual([no, undefined, "unreadable"]);
});
