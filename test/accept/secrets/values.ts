// The values that are planted: random each time, with characters that every encoding writes differently.
import { randomBytes } from "node:crypto";

export const NAMES = [
  "daemonEnv",
  "envFile",
  "hostFile",
  "pluginSecret",
  "providerKey",
  "baseUrl",
  "refusal",
  "hookError",
  "instructions",
  "argv",
  "apiToken",
  "cliVariable",
] as const;
export type Name = (typeof NAMES)[number];
export type Values = Readonly<Record<Name, string>>;

const hex = (): string => randomBytes(20).toString("hex");
/** Quotes and backslash for JSON, the rest for URLs and base64. */
const spiky = (): string => `K${hex()}"\\/+&=%~z${hex().slice(0, 9)}`;

export const makeValues = (apiToken: string): Values => ({
  daemonEnv: spiky(),
  envFile: spiky(),
  hostFile: spiky(),
  pluginSecret: spiky(),
  providerKey: spiky(),
  // A part of an address, and the text of a manifest: no odd characters.
  baseUrl: `t${hex()}`,
  refusal: spiky(),
  hookError: spiky(),
  instructions: `I${hex()}`,
  argv: spiky(),
  apiToken,
  cliVariable: spiky(),
});

/** The inner characters of its base64, wherever it begins in what was encoded. */
function base64Forms(value: string): readonly string[] {
  const raw = Buffer.from(value);
  return [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), raw])
      .toString("base64")
      .replace(/=+$/, "");
    return text.slice(offset === 0 ? 0 : offset + 1, (offset + raw.length) % 3 === 0 ? undefined : -1);
  });
}

/** Every way in which a value may be written down, and a part of it that names it as well. */
export function formsOf(value: string): readonly string[] {
  const json = JSON.stringify(value).slice(1, -1);
  const url = encodeURIComponent(value);
  const bytes = Buffer.from(value).toString("hex");
  const base64 = base64Forms(value);
  return [
    ...new Set([
      value,
      json,
      JSON.stringify(json).slice(1, -1),
      url,
      url.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
      ...base64,
      ...base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_")),
      bytes,
      bytes.toUpperCase(),
      // What a cut in the middle leaves: sixteen characters are told from chance.
      value.slice(0, 16),
      Buffer.from(value.slice(0, 15)).toString("base64"),
    ]),
  ];
}
