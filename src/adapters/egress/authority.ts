// The store's own certificate authority, for hosts whose requests get a secret from the gateway: made once, its key stays here.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  X509Certificate,
  type KeyObject,
} from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { createSecureContext, rootCertificates, type SecureContext } from "node:tls";
import { parseAddress } from "../../core/egressaddress.ts";
import type { Clock } from "../../core/world.ts";
import { der, ECDSA_SHA256, extension, named, octets, oid, pem, sequence, time, TRUE } from "../certificate/der.ts";

const DAY_MS = 86_400_000;
const LIFE_MS = 3650 * DAY_MS;
const RENEW_MS = 60 * DAY_MS;
const LEAF_MS = 30 * DAY_MS;
/** Certificates that are kept: one a host with a secret. */
const KEPT_MAX = 256;
const SYSTEM_ROOTS = "/etc/ssl/certs/ca-certificates.crt";
const AUTHORITY = named("beige egress authority");
const BASIC = "2.5.29.19";
const USAGE = "2.5.29.15";

interface Signer {
  readonly key: KeyObject;
  readonly certificate: string;
  readonly id: Buffer;
}

const spkiOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: "spki", format: "der" });
/** The point itself is the last 65 bytes of a P-256 key. */
const keyId = (spki: Buffer): Buffer => createHash("sha1").update(spki.subarray(-65)).digest();

interface Body {
  readonly subject: Buffer;
  readonly spki: Buffer;
  readonly extensions: readonly Buffer[];
  readonly from: number;
  readonly to: number;
}

function signed(body: Body, by: KeyObject): string {
  const number = Buffer.concat([Uint8Array.of(1), randomBytes(15)]);
  const whole = sequence(
    der(0xa0, der(0x02, Uint8Array.of(2))),
    der(0x02, number),
    ECDSA_SHA256,
    AUTHORITY,
    sequence(time(body.from), time(body.to)),
    body.subject,
    body.spki,
    der(0xa3, sequence(...body.extensions)),
  );
  return pem("CERTIFICATE", sequence(whole, ECDSA_SHA256, der(0x03, Uint8Array.of(0), sign("sha256", whole, by))));
}

function makeSigner(now: number): Signer {
  const { privateKey: key } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = spkiOf(key);
  const id = keyId(spki);
  const extensions = [
    // Signs certificates of hosts, and no other authority.
    extension(BASIC, true, sequence(TRUE, der(0x02, Uint8Array.of(0)))),
    extension(USAGE, true, der(0x03, Uint8Array.of(1, 0b0000_0110))),
    extension("2.5.29.14", false, octets(id)),
  ];
  return { key, id, certificate: signed({ subject: AUTHORITY, spki, extensions, from: now - DAY_MS, to: now + LIFE_MS }, key) };
}

function readSigner(paths: { readonly key: string; readonly certificate: string }, now: number): Signer | undefined {
  if (!existsSync(paths.key) || !existsSync(paths.certificate)) return undefined;
  try {
    const key = createPrivateKey(readFileSync(paths.key, "utf8"));
    const certificate = readFileSync(paths.certificate, "utf8");
    const seen = new X509Certificate(certificate);
    if (Date.parse(seen.validTo) - now < RENEW_MS || !seen.checkPrivateKey(key)) return undefined;
    return { key, certificate, id: keyId(spkiOf(key)) };
  } catch {
    return undefined;
  }
}

function ensureSigner(home: string, now: number): Signer {
  const folder = join(home, "egress");
  const paths = { key: join(folder, "ca.key"), certificate: join(folder, "ca.crt") };
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const there = readSigner(paths, now);
  if (there !== undefined) return there;
  const made = makeSigner(now);
  const text = { key: made.key.export({ type: "pkcs8", format: "pem" }).toString(), certificate: made.certificate };
  for (const part of ["key", "certificate"] as const) {
    rmSync(`${paths[part]}.new`, { force: true });
    writeFileSync(`${paths[part]}.new`, text[part], { mode: 0o600, flag: "wx", flush: true });
    renameSync(`${paths[part]}.new`, paths[part]);
  }
  return made;
}

function leaf(signer: Signer, host: string, now: number): { readonly key: string; readonly cert: string } {
  const { privateKey: key } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = spkiOf(key);
  const name = isIP(host) === 0 ? der(0x82, Buffer.from(host)) : der(0x87, Uint8Array.from(parseAddress(host) ?? []));
  const extensions = [
    extension(BASIC, true, sequence()),
    extension(USAGE, true, der(0x03, Uint8Array.of(7, 0b1000_0000))),
    extension("2.5.29.37", false, sequence(oid("1.3.6.1.5.5.7.3.1"))),
    extension("2.5.29.17", false, sequence(name)),
    extension("2.5.29.35", false, sequence(der(0x80, signer.id))),
  ];
  const subject = named(host.slice(0, 64));
  const cert = signed({ subject, spki, extensions, from: now - DAY_MS, to: now + LEAF_MS }, signer.key);
  return { key: key.export({ type: "pkcs8", format: "pem" }).toString(), cert };
}

export interface Authority {
  /** What a TLS server needs to be taken for this host inside sandboxes. */
  context(host: string): SecureContext;
  /** PEM: this authority, and those that the machine trusts. */
  bundle(): string;
}

/** Made at the first use: most homes never need it. */
export function createAuthority(home: string, clock: Pick<Clock, "now">): Authority {
  let kept: Signer | undefined;
  const signer = (): Signer => (kept ??= ensureSigner(home, clock.now()));
  const contexts = new Map<string, { readonly at: number; readonly context: SecureContext }>();
  return {
    context(host) {
      const now = clock.now();
      const known = contexts.get(host);
      if (known !== undefined && now - known.at < LEAF_MS / 2) return known.context;
      const { key, cert } = leaf(signer(), host, now);
      const context = createSecureContext({ key, cert: cert + signer().certificate, minVersion: "TLSv1.2" });
      contexts.delete(host);
      contexts.set(host, { at: now, context });
      if (contexts.size > KEPT_MAX) contexts.delete(contexts.keys().next().value ?? "");
      return context;
    },
    bundle() {
      const roots = existsSync(SYSTEM_ROOTS) ? readFileSync(SYSTEM_ROOTS, "utf8") : rootCertificates.join("\n");
      return `${signer().certificate}${roots.trimEnd()}\n`;
    },
  };
}
