import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, get } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { X509Certificate } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { certificatePath, ensureCertificate, makeCertificate } from "./certificate.ts";

const NOW = Date.parse("2026-03-05T00:00:00Z");
const DAY = 86_400_000;
let home: string;
let serial = 0;
const random = { hex: (bytes: number) => (++serial).toString(16).padStart(bytes * 2, "0") };
const clock = (ms: number) => ({ now: () => ms });

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-cert-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

test("a client that trusts the certificate reaches loopback by each of its names, and nothing else", async () => {
  const { key, cert } = makeCertificate(Date.now(), random.hex(16));
  const seen = new X509Certificate(cert);
  expect([seen.subjectAltName, seen.verify(seen.publicKey), seen.ca]).toEqual([
    "IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, DNS:localhost",
    true,
    true,
  ]);
  const server = createServer({ key, cert }, (_, response) => response.end("hello"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const ask = (servername: string, ca: string): Promise<string> =>
    new Promise((resolve) => {
      const sent = get({ host: "127.0.0.1", port, servername, ca, agent: false }, (response) => {
        response.on("data", (data: Buffer) => resolve(data.toString()));
      });
      sent.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    });
  expect(await ask("localhost", cert)).toBe("hello");
  expect(await ask("", cert)).toBe("hello");
  expect(await ask("evil.example", cert)).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  expect(await ask("localhost", makeCertificate(Date.now(), random.hex(16)).cert)).not.toBe("hello");
  server.close();
});

test("it is made once, private, and made anew before its end", () => {
  const first = ensureCertificate(home, clock(NOW), random);
  for (const file of ["tls.key", "tls.crt"]) expect(statSync(join(home, "kube", file)).mode & 0o777).toBe(0o600);
  expect(ensureCertificate(home, clock(NOW + 3000 * DAY), random)).toEqual(first);
  const later = ensureCertificate(home, clock(NOW + 3600 * DAY), random);
  expect(later.cert).not.toBe(first.cert);
  expect(Date.parse(new X509Certificate(later.cert).validTo)).toBe(NOW + 7250 * DAY);
});

test("what is broken, or does not belong together, is made anew", () => {
  const first = ensureCertificate(home, clock(NOW), random);
  writeFileSync(join(home, "kube/tls.key"), makeCertificate(NOW, random.hex(16)).key);
  const second = ensureCertificate(home, clock(NOW), random);
  expect(second.cert).not.toBe(first.cert);
  writeFileSync(certificatePath(home), "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
  const third = ensureCertificate(home, clock(NOW), random);
  expect(readFileSync(certificatePath(home), "utf8")).toBe(third.cert);
  expect(ensureCertificate(home, clock(NOW), random)).toEqual(third);
});

test("a certificate beyond 2049 has its year in four digits", () => {
  const { cert } = makeCertificate(Date.parse("2045-06-01T00:00:00Z"), "00ff");
  expect(new X509Certificate(cert).validTo).toContain("2055");
});
