// The gateway's own certificate for its door with TLS: made once below BEIGE_HOME, for loopback names only.
import { createHash, createPrivateKey, generateKeyPairSync, sign, X509Certificate } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Random } from "../core/world.ts";
import { der, ECDSA_SHA256, extension, named, octets, oid, pem, sequence, time, TRUE } from "./certificate/der.ts";

export interface Certificate {
  /** PEM. */
  readonly key: string;
  readonly cert: string;
}

const DAY_MS = 86_400_000;
/** Clients keep the certificate in their configuration, so it lives long; its key never leaves this machine. */
const LIFE_MS = 3650 * DAY_MS;
const RENEW_MS = 60 * DAY_MS;

export const certificatePath = (home: string): string => join(home, "kube", "tls.crt");

/** What is there and good for a while, or a new one. */
export function ensureCertificate(home: string, clock: Pick<Clock, "now">, random: Pick<Random, "hex">): Certificate {
  const folder = join(home, "kube");
  const paths = { key: join(folder, "tls.key"), cert: certificatePath(home) };
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const there = read(paths);
  if (there !== undefined && fits(there, clock.now())) return there;
  const made = makeCertificate(clock.now(), random.hex(16));
  // The key first: a certificate without its key is made anew.
  for (const part of ["key", "cert"] as const) {
    rmSync(`${paths[part]}.new`, { force: true });
    writeFileSync(`${paths[part]}.new`, made[part], { mode: 0o600, flag: "wx", flush: true });
    renameSync(`${paths[part]}.new`, paths[part]);
  }
  return made;
}

function read(paths: Certificate): Certificate | undefined {
  if (!existsSync(paths.key) || !existsSync(paths.cert)) return undefined;
  for (const path of [paths.key, paths.cert]) chmodSync(path, 0o600);
  return { key: readFileSync(paths.key, "utf8"), cert: readFileSync(paths.cert, "utf8") };
}

/** Whether the two belong together and the end is not near. */
function fits({ key, cert }: Certificate, now: number): boolean {
  try {
    const seen = new X509Certificate(cert);
    return Date.parse(seen.validTo) - now > RENEW_MS && seen.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

const NAME = named("beige gateway");

function extensions(publicBits: Uint8Array): Buffer {
  const id = createHash("sha1").update(publicBits).digest();
  const addresses = [Uint8Array.of(127, 0, 0, 1), Uint8Array.of(...Array<number>(15).fill(0), 1)];
  const names = sequence(...addresses.map((address) => der(0x87, address)), der(0x82, Buffer.from("localhost")));
  return der(
    0xa3,
    sequence(
      extension("2.5.29.19", true, sequence(TRUE, der(0x02, Uint8Array.of(0)))),
      // Signs its own certificate and handshakes, and nothing else.
      extension("2.5.29.15", true, der(0x03, Uint8Array.of(2, 0b1000_0100))),
      extension("2.5.29.37", false, sequence(oid("1.3.6.1.5.5.7.3.1"))),
      extension("2.5.29.17", false, names),
      extension("2.5.29.14", false, octets(id)),
      extension("2.5.29.35", false, sequence(der(0x80, id))),
    ),
  );
}

/** A P-256 key and its self-signed certificate. `serial` is hex. */
export function makeCertificate(now: number, serial: string): Certificate {
  const { privateKey: key, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = publicKey.export({ type: "spki", format: "der" });
  // The point itself is the last 65 bytes of a P-256 key.
  const point = spki.subarray(-65);
  const number = Buffer.from(`01${serial}`, "hex");
  const validity = sequence(time(now - DAY_MS), time(now + LIFE_MS));
  const body = sequence(
    der(0xa0, der(0x02, Uint8Array.of(2))),
    der(0x02, number),
    ECDSA_SHA256,
    NAME,
    validity,
    NAME,
    spki,
    extensions(point),
  );
  const signature = sign("sha256", body, key);
  const whole = sequence(body, ECDSA_SHA256, der(0x03, Uint8Array.of(0), signature));
  return { key: key.export({ type: "pkcs8", format: "pem" }).toString(), cert: pem("CERTIFICATE", whole) };
}
