// Resolves references to secrets at use, and knows every value it has given out, so that printers can leave them out.
import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import { BeigeError } from "../core/errors.ts";
import { secretAllowed } from "../core/hostpolicy.ts";
import type { Clock, Secrets } from "../core/world.ts";
import type { HostPolicy, HostSecret, Secret } from "../../schemas/types.ts";
import { createRedactor } from "./secrets/redact.ts";

export interface SecretsOptions {
  readonly host: () => HostPolicy;
  /** The daemon's environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** BEIGE_HOME/env: NAME=VALUE lines. */
  readonly homeEnvFile: string;
  readonly clock: Pick<Clock, "monotonic">;
}

const FILE_BYTES_MAX = 256 * 1024;
const EXEC_TIMEOUT_MS = 5_000;
/** How long a program's answer is used again, so that each LLM attempt does not start one. */
const EXEC_KEEP_MS = 60_000;

const firstLine = (text: string): string => (text.split(/\r?\n/, 1)[0] ?? "").trim();

/** A private file's text; undefined when there is none. */
async function readPrivate(path: string): Promise<string | undefined> {
  const file = await open(path, "r").catch((error: { code?: string }) => {
    if (error.code === "ENOENT") return undefined;
    throw new BeigeError("denied", `${path} cannot be read (${error.code})`, { hint: `ls -l ${path}` });
  });
  if (file === undefined) return undefined;
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw new BeigeError("denied", `${path} is not a file`);
    if ((stats.mode & 0o077) !== 0)
      throw new BeigeError("denied", `${path} can be read or written by others`, { hint: `chmod 600 ${path}` });
    if (stats.size > FILE_BYTES_MAX) throw new BeigeError("denied", `${path} is larger than ${FILE_BYTES_MAX} bytes`);
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

/** A file that was written this lately may be written again without its times telling. */
const RESTED_MS = 1000;

/** Reads a private file again only after it has changed: each LLM attempt asks. */
function privateReader(): (path: string) => Promise<string | undefined> {
  const kept = new Map<string, { readonly stamp: string; readonly text: string | undefined }>();
  return async (path) => {
    const stamp = stampOf(path);
    const known = kept.get(path);
    if (known !== undefined && known.stamp === stamp) return known.text;
    const text = await readPrivate(path);
    if (stamp === undefined) kept.delete(path);
    else kept.set(path, { stamp, text });
    return text;
  };
}

/** Changes with the file's content, owner and mode; undefined where it tells nothing. */
function stampOf(path: string): string | undefined {
  try {
    const seen = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (seen === undefined || Date.now() - Number(seen.ctimeMs) < RESTED_MS) return undefined;
    return `${seen.dev} ${seen.ino} ${seen.size} ${seen.mtimeNs} ${seen.ctimeNs}`;
  } catch {
    return undefined;
  }
}

/** NAME=VALUE lines; comments, `export` and one pair of quotes are understood, nothing is expanded. */
function parseEnv(text: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match === null) continue;
    const raw = match[2] ?? "";
    const quoted = /^"(.*)"$|^'(.*)'$/.exec(raw);
    values.set(match[1] ?? "", quoted === null ? raw : (quoted[1] ?? quoted[2] ?? ""));
  }
  return values;
}

/** Never through a shell, and with nothing of the daemon's environment but where to find programs. */
function runProgram(command: readonly string[], env: SecretsOptions["env"]): Promise<string> {
  const [program = "", ...args] = command;
  const small = { PATH: env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin", ...(env["HOME"] === undefined ? {} : { HOME: env["HOME"] }) };
  const options = { env: small, timeout: EXEC_TIMEOUT_MS, killSignal: "SIGKILL", maxBuffer: FILE_BYTES_MAX, cwd: "/" } as const;
  return new Promise((done, fail) => {
    // What the program printed may hold the value: neither stream goes into the message.
    execFile(program, args, options, (error, stdout) => {
      if (error === null) return done(firstLine(stdout));
      const why = error.killed === true ? `did not answer within ${EXEC_TIMEOUT_MS} ms` : `failed (${String(error.code ?? error.signal)})`;
      fail(new BeigeError("not_found", `program ${program} of a secret ${why}`, { hint: "beige secret list" }));
    }).stdin?.end();
  });
}

type Found = { readonly value: string } | { readonly missing: string; readonly hint: string };
type FindEntry = (entry: HostSecret) => Promise<Found>;
type FindEnv = (name: string) => Promise<Found>;

const envFinder =
  (options: SecretsOptions, read: ReturnType<typeof privateReader>): FindEnv =>
  async (name) => {
    const own = Object.hasOwn(options.env, name) ? options.env[name] : undefined;
    const value = own ?? parseEnv((await read(options.homeEnvFile)) ?? "").get(name);
    if (value !== undefined && value !== "") return { value };
    return {
      missing: `variable ${name} is not set for the gateway`,
      hint: `put ${name}=VALUE into ${options.homeEnvFile}, or set it and run: beige gateway restart`,
    };
  };

function programFinder(options: SecretsOptions): (name: string, command: readonly string[]) => Promise<Found> {
  const kept = new Map<string, { readonly at: number; readonly value: Promise<string> }>();
  return async (name, command) => {
    const key = JSON.stringify([name, command]);
    const now = options.clock.monotonic();
    let held = kept.get(key);
    if (held === undefined || now - held.at > EXEC_KEEP_MS) {
      held = { at: now, value: runProgram(command, options.env) };
      kept.set(key, held);
      held.value.catch(() => kept.delete(key));
    }
    const value = await held.value;
    return value === "" ? { missing: `program of secret ${name} printed nothing`, hint: "beige secret list" } : { value };
  };
}

function entryFinder(options: SecretsOptions, fromEnv: FindEnv, read: ReturnType<typeof privateReader>): FindEntry {
  const fromProgram = programFinder(options);
  return async (entry) => {
    if (entry.env !== undefined) return fromEnv(entry.env);
    if (entry.exec !== undefined) return fromProgram(entry.name, entry.exec);
    const hint = `beige secret set ${entry.name}`;
    if (entry.file === undefined) return { missing: `secret ${entry.name} of host.yaml has neither env, file nor exec`, hint };
    const value = firstLine((await read(entry.file)) ?? "");
    return value === "" ? { missing: `file ${entry.file} of secret ${entry.name} is absent or empty`, hint } : { value };
  };
}

export function createSecrets(options: SecretsOptions): Secrets {
  const redactor = createRedactor();
  const read = privateReader();
  const fromEnv = envFinder(options, read);
  const fromEntry = entryFinder(options, fromEnv, read);
  const find = async (ref: Secret, host: string | undefined): Promise<Found> => {
    const allowed = secretAllowed(options.host(), ref, host);
    if (!allowed.ok) throw new BeigeError("denied", allowed.message, { hint: allowed.hint });
    if (allowed.entry !== undefined) return fromEntry(allowed.entry);
    return fromEnv(ref.env ?? "");
  };
  const resolve = async (ref: Secret, host?: string): Promise<string> => {
    const found = await find(ref, host);
    if ("missing" in found) throw new BeigeError("not_found", found.missing, { hint: found.hint });
    redactor.add(found.value);
    return found.value;
  };
  return {
    resolve,
    check: async (ref, host) => {
      try {
        await resolve(ref, host);
        return { ok: true };
      } catch (error) {
        if (!(error instanceof BeigeError)) throw error;
        const reason = error.code === "denied" ? "SecretDenied" : "SecretMissing";
        return { ok: false, reason, message: error.message, hint: error.hint ?? "beige secret list" };
      }
    },
    redact: redactor.redact,
  };
}
