import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { HostSecret } from "../../schemas/types.ts";
import { systemClock } from "./clock.ts";
import { createSecrets } from "./secrets.ts";

let home = "";
beforeEach(() => (home = mkdtempSync(join(tmpdir(), "beige-secrets-"))));
afterEach(() => rmSync(home, { recursive: true, force: true }));

const make = (secrets: readonly HostSecret[] = [], env: Record<string, string> = {}): ReturnType<typeof createSecrets> =>
  createSecrets({
    host: () => ({ secrets: [...secrets], paths: { mounts: [], workspaces: [], plugins: [] } }),
    env: { PATH: process.env["PATH"] ?? "", ...env },
    homeEnvFile: join(home, "env"),
    clock: systemClock,
  });

test("a variable comes from the daemon's environment, then from the env file", async () => {
  writeFileSync(join(home, "env"), "# keys\nexport A='from file'\nB=\"other\"\n", { mode: 0o600 });
  const secrets = make([], { A: "from env" });
  expect(await secrets.resolve({ env: "A" })).toBe("from env");
  expect(await secrets.resolve({ env: "B" })).toBe("other");
  await expect(secrets.resolve({ env: "C" })).rejects.toMatchObject({ code: "not_found", hint: expect.stringContaining("C") });
  await expect(secrets.resolve({ env: "toString" })).rejects.toMatchObject({ code: "not_found" });
});

test("an env file or a secret file that others can read is refused with the command that mends it", async () => {
  writeFileSync(join(home, "env"), "A=hunter22\n");
  chmodSync(join(home, "env"), 0o644);
  await expect(make().resolve({ env: "A" })).rejects.toMatchObject({ code: "denied", hint: expect.stringContaining("chmod 600") });
  const secret = { name: "f", file: join(home, "env"), hosts: [] };
  expect(await make([secret]).check({ secret: "f" })).toMatchObject({ ok: false, reason: "SecretDenied" });
  chmodSync(join(home, "env"), 0o600);
  expect(await make([secret]).resolve({ secret: "f" })).toBe("A=hunter22");
});

test("a secret goes to the hosts that it is bound to and to no other", async () => {
  const secrets = make([{ name: "k", env: "K", hosts: ["api.example.com", "*.good.org"] }], { K: "value-of-k" });
  expect(await secrets.resolve({ secret: "k" }, "api.example.com")).toBe("value-of-k");
  for (const host of ["evil.com", "api.example.com.evil.com", "good.org.evil.com"]) {
    await expect(secrets.resolve({ secret: "k" }, host), host).rejects.toMatchObject({ code: "denied" });
  }
  expect(await secrets.check({ secret: "absent" })).toMatchObject({ ok: false });
});

test("a program's first line is the value; its failure and its silence never show what it printed", async () => {
  const exec = (script: string): HostSecret => ({ name: "p", exec: ["sh", "-c", script], hosts: [] });
  expect(await make([exec("echo v-$((1+1)); echo rest")]).resolve({ secret: "p" })).toBe("v-2");
  expect(await make([exec('echo "$HIDDEN"x')], { HIDDEN: "leaked" }).resolve({ secret: "p" })).toBe("x");
  const failed = await make([exec("echo hunter22; echo hunter22 >&2; exit 3")])
    .resolve({ secret: "p" })
    .catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "not_found" });
  expect(JSON.stringify([failed, String(failed)])).not.toContain("hunter22");
  expect(await make([exec(":")]).check({ secret: "p" })).toMatchObject({ ok: false, reason: "SecretMissing" });
});

test("a program that hangs is ended after 5 s", async () => {
  const from = Date.now();
  await expect(make([{ name: "p", exec: ["sleep", "60"], hosts: [] }]).resolve({ secret: "p" })).rejects.toMatchObject({
    code: "not_found",
  });
  expect(Date.now() - from).toBeLessThan(8_000);
}, 15_000);

test("a resolved value is replaced in every form in which it is likely to be printed", async () => {
  const value = 'sk-/+"quoted"\\ünd&more';
  const secrets = make([], { K: value });
  await secrets.resolve({ env: "K" });
  const forms = [
    value,
    JSON.stringify({ key: value }),
    JSON.stringify(JSON.stringify({ key: value })),
    encodeURIComponent(value),
    encodeURIComponent(value).toLowerCase().replace(value.slice(0, 3), value.slice(0, 3)),
    new URLSearchParams({ key: value }).toString(),
    Buffer.from(value).toString("base64"),
    Buffer.from(value).toString("base64url"),
    Buffer.from(value).toString("hex"),
    Buffer.from(value).toString("hex").toUpperCase(),
  ];
  for (const form of forms) expect(secrets.redact(`before ${form} after`), form).toContain("[secret]");
  expect(secrets.redact(value)).toBe("[secret]");
});

test("base64 of a text that holds the value somewhere is replaced as well", async () => {
  const value = "hunter22-and-more";
  const secrets = make([], { K: value });
  await secrets.resolve({ env: "K" });
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii", maxLength: 9 }), fc.string({ unit: "binary-ascii", maxLength: 9 }), (before, after) => {
      const encoded = Buffer.from(`${before}${value}${after}`).toString("base64");
      expect(secrets.redact(encoded)).toContain("[secret]");
    }),
  );
});

test("what a cut left of a value at the end of a text is replaced, in every form", async () => {
  const value = 'sk-12345678/+"quoted"90';
  const secrets = make([], { K: value });
  await secrets.resolve({ env: "K" });
  const long = "said ".repeat(80);
  const raw = Buffer.from(value);
  for (const form of [value, JSON.stringify(value).slice(1), encodeURIComponent(value), raw.toString("base64"), raw.toString("hex")]) {
    for (let left = 6; left < form.length; left += 1) {
      expect(secrets.redact(`${long}${form.slice(0, left)}`), form.slice(0, left)).toBe(`${long}[secret]`);
    }
  }
  expect(secrets.redact(`${long}sk-1`)).toBe(`${long}sk-1`);
  expect(secrets.redact(`${long}sk-12345678 and more`)).toBe(`${long}sk-12345678 and more`);
  expect(secrets.redact("sk-12345678")).toBe("sk-12345678");
});

test("short values are left alone: they would turn words into secrets", async () => {
  const secrets = make([], { K: "the" });
  await secrets.resolve({ env: "K" });
  expect(secrets.redact("the text")).toBe("the text");
});

test("a file is read again only after it has changed, and then at once, even when its length is the same", async () => {
  const file = join(home, "key");
  writeFileSync(file, "first-value\n", { mode: 0o600 });
  const secrets = make([{ name: "f", file, hosts: [] }]);
  await systemClock.sleep(1100);
  for (let n = 0; n < 3; n++) expect(await secrets.resolve({ secret: "f" })).toBe("first-value");
  writeFileSync(file, "other-value\n");
  expect(await secrets.resolve({ secret: "f" })).toBe("other-value");
  writeFileSync(file, "third-value\n");
  expect(await secrets.resolve({ secret: "f" })).toBe("third-value");
  await systemClock.sleep(1100);
  expect(await secrets.resolve({ secret: "f" })).toBe("third-value");
  chmodSync(file, 0o644);
  await expect(secrets.resolve({ secret: "f" })).rejects.toMatchObject({ code: "denied" });
  rmSync(file);
  await expect(secrets.resolve({ secret: "f" })).rejects.toMatchObject({ code: "not_found" });
});
