// Secret values that this machine keeps for a gateway: gathered only to be searched for, and taken out of text before it is written.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { looksSecret } from "../core/secretref.ts";
import type { Context } from "./flags.ts";
import { MARK } from "./snapshot.ts";

/** Shorter ones would take ordinary words out. */
const SHORTEST = 6;
const MAX_BYTES = 1024 * 1024;

const textOf = (path: string): string => {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.size <= MAX_BYTES ? readFileSync(path, "utf8") : "";
};

/** Variables whose names say what they hold; the gateway may have been given the same ones. */
const NAMED = /(KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH)/i;

export async function secretValues(context: Context): Promise<readonly string[]> {
  const { home, env } = context;
  const folder = join(home, "secrets");
  const kept =
    statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true
      ? readdirSync(folder).map((name) => textOf(join(folder, name)))
      : [];
  const lines = textOf(join(home, "env")).split("\n");
  const own = lines.flatMap((line) => (line.includes("=") ? [line.slice(line.indexOf("=") + 1).replace(/^(["'])(.*)\1$/, "$2")] : []));
  const named = Object.entries(env).flatMap(([name, value]) => (NAMED.test(name) && value !== undefined ? [value] : []));
  const { readHost } = await import("./hostfile.ts");
  let policy: readonly string[] = [];
  try {
    policy = readHost(home).secrets.flatMap((secret) => [
      ...(secret.file === undefined ? [] : [textOf(secret.file)]),
      ...(secret.env === undefined ? [] : [env[secret.env] ?? ""]),
    ]);
  } catch {
    // A broken policy names nothing that could be looked up.
  }
  const all = [...kept, ...own, ...named, ...policy, textOf(join(home, "token"))].flatMap((text) => [
    text.trim(),
    (text.split("\n", 1)[0] ?? "").trim(),
  ]);
  return [...new Set(all)].filter((value) => value.length >= SHORTEST).toSorted((a, b) => b.length - a.length);
}

/** The ways in which a value may stand in a text. */
function formsOf(value: string): readonly string[] {
  const raw = Buffer.from(value);
  const base64 = [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), raw])
      .toString("base64")
      .replace(/=+$/, "");
    return text.slice(offset === 0 ? 0 : offset + 1, (offset + raw.length) % 3 === 0 ? undefined : -1);
  });
  const forms = [
    value,
    JSON.stringify(value).slice(1, -1),
    encodeURIComponent(value.toWellFormed()),
    raw.toString("hex"),
    ...base64,
    ...base64.map((each) => each.replaceAll("+", "-").replaceAll("/", "_")),
  ];
  return [...new Set(forms)].filter((form) => form.length >= SHORTEST);
}

export interface Hider {
  hide(text: string): string;
  /** Whether any known value is still there, in any form. */
  finds(text: string): boolean;
}

export function hiderOf(values: readonly string[]): Hider {
  const forms = [...new Set(values.flatMap(formsOf))].toSorted((a, b) => b.length - a.length);
  const words = (text: string): string =>
    text.replaceAll(/[A-Za-z0-9+/=_.-]{12,4096}/g, (word) => (looksSecret(word) && !/^[0-9a-f-]+$/.test(word) ? MARK : word));
  return {
    hide: (text) => words(forms.reduce((left, form) => left.replaceAll(form, MARK), text)),
    finds: (text) => forms.some((form) => text.includes(form)),
  };
}
