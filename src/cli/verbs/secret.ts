// beige secret: values in private files of the home, and in host.yaml the hosts that each may be sent to. A value never comes from the command line.
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { HostSecret } from "../../../schemas/types.ts";
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Input, type Run, word, words } from "../flags.ts";
import { oneLine } from "../output.ts";
import { writePrivate } from "../private.ts";
import { drawTable } from "../render/table.ts";

const VALUE_MAX_BYTES = 64 * 1024;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

const filePath = (context: Context, name: string): string => join(context.home, "secrets", name);

function nameOf(input: Input): string {
  const name = input.args[0] ?? "";
  if (NAME.test(name)) return name;
  throw new BeigeError("invalid", `"${name}" cannot name a secret`, { hint: "letters, digits, '.', '_' and '-', at most 63" });
}

async function valueOf(context: Context, name: string, hosts: readonly string[]): Promise<string> {
  const text = process.stdin.isTTY ? await hidden(context, name) : await context.stdin(VALUE_MAX_BYTES);
  const value = text.replace(/\r?\n$/, "");
  if (value === "")
    throw new BeigeError("invalid", `no value for secret ${name}`, {
      hint: `printf %s "$KEY" | beige secret set ${name} ${(hosts.length > 0 ? hosts : ["api.example.com"]).map((host) => `--host ${host}`).join(" ")}`,
    });
  if (/[\r\n\0]/.test(value))
    throw new BeigeError("invalid", `the value of secret ${name} is more than one line`, { hint: "--file PATH names a file of your own" });
  return value;
}

/** Asks on the terminal without showing what is typed. */
async function hidden(context: Context, name: string): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const { Writable } = await import("node:stream");
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = createInterface({ input: process.stdin, output: silent, terminal: true });
  context.out.raw(`value of ${name} (not shown): `);
  try {
    return await reader.question("", { signal: context.signal });
  } finally {
    reader.close();
    context.out.raw("\n");
  }
}

function checkHosts(hosts: readonly string[]): void {
  const odd = hosts.find((host) => !/^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/.test(host));
  if (odd !== undefined)
    throw new BeigeError("invalid", `"${odd}" is not a host`, {
      hint: hostIn(odd) ?? "--host api.example.com, --host '*.example.com' or --host localhost:8080",
    });
}

/** Of an address, the part that was meant. */
const hostIn = (text: string): string | undefined =>
  /^https?:/.test(text) && URL.canParse(text) ? `--host ${new URL(text).host}` : undefined;

export const set: Run = async (context, input) => {
  const name = nameOf(input);
  const hosts = words(input, "host");
  checkHosts(hosts);
  const { readHost, changeHost } = await import("../hostfile.ts");
  const before = readHost(context.home).secrets.find((secret) => secret.name === name);
  const variable = word(input, "env");
  const given = word(input, "file");
  if (variable !== undefined && given !== undefined) throw new BeigeError("invalid", "give --env or --file, not both");
  const from = variable !== undefined ? { env: variable } : { file: given ?? filePath(context, name) };
  const value = variable === undefined && given === undefined ? await valueOf(context, name, hosts) : undefined;
  const entry: HostSecret = { name, ...from, hosts: hosts.length > 0 ? [...hosts] : [...(before?.hosts ?? [])] };
  if (value !== undefined) {
    mkdirSync(join(context.home, "secrets"), { recursive: true, mode: 0o700 });
    chmodSync(join(context.home, "secrets"), 0o700);
    writePrivate(filePath(context, name), `${value}\n`);
  }
  changeHost(context.home, (secrets) => [...secrets.filter((secret) => secret.name !== name), entry]);
  await context.out.write(
    `secret ${name} ${before ? "changed" : "set"}: ${entry.hosts.length > 0 ? `may be sent to ${entry.hosts.join(", ")}` : "may not be sent anywhere yet"}\n`,
  );
  if (entry.hosts.length === 0) context.out.note(`bind it to its hosts: beige secret set ${name} --host HOST`);
  return 0;
};

const whence = (secret: HostSecret): string =>
  secret.env !== undefined
    ? `env ${secret.env}`
    : secret.file !== undefined
      ? `file ${secret.file}`
      : secret.exec
        ? `exec ${secret.exec[0] ?? ""}`
        : "nowhere";

export const list: Run = async (context, input) => {
  const { readHost } = await import("../hostfile.ts");
  const { secrets } = readHost(context.home);
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify({ items: secrets }, undefined, 2)}\n`);
  else if (secrets.length === 0) context.out.note("no secrets: beige secret set NAME --host HOST");
  else {
    const drawn = drawTable(
      ["NAME", "FROM", "HOSTS"],
      secrets.map((secret) => [secret.name, whence(secret), secret.hosts.join(",")].map(oneLine)),
    );
    await context.out.write(`${[drawn.header, ...drawn.rows].join("\n")}\n`);
  }
  return 0;
};

export const remove: Run = async (context, input) => {
  const name = nameOf(input);
  const { readHost, changeHost } = await import("../hostfile.ts");
  if (!readHost(context.home).secrets.some((secret) => secret.name === name))
    throw new BeigeError("not_found", `there is no secret ${name}`, { hint: "beige secret list" });
  changeHost(context.home, (secrets) => secrets.filter((secret) => secret.name !== name));
  rmSync(filePath(context, name), { force: true });
  await context.out.write(`secret ${name} removed\n`);
  return 0;
};
