// Which secret may be sent to which host: host.yaml decides, manifests only ask.
import type { HostPolicy, HostSecret, Secret } from "../../schemas/types.ts";
import { suggest } from "./text.ts";

export type SecretVerdict =
  | { readonly ok: true; readonly entry?: HostSecret; readonly env?: string }
  | {
      readonly ok: false;
      readonly reason: "SecretUnknown" | "SecretNotBound" | "SecretMalformed";
      readonly message: string;
      readonly hint: string;
    };

/**
 * `host` is NAME or NAME:PORT of the address that the value would go to; absent when it goes to none, as a plugin's own.
 * {env: X} is the operator's shorthand: whoever may write the object binds it to that object's host.
 */
export function secretAllowed(policy: HostPolicy, ref: Secret, host?: string): SecretVerdict {
  if (ref.env !== undefined && ref.secret === undefined) return { ok: true, env: ref.env };
  if (ref.secret === undefined || ref.env !== undefined)
    return refuse("SecretMalformed", "reference names no secret", "write {secret: NAME} or {env: VARIABLE}");
  const entry = policy.secrets.find((s) => s.name === ref.secret);
  if (entry === undefined) {
    const known = policy.secrets.map((s) => s.name);
    return refuse(
      "SecretUnknown",
      `secret "${ref.secret}" is not in host.yaml`,
      `${suggest(ref.secret, known, "secrets in host.yaml")}; run: beige secret set ${ref.secret} --host ${host ?? "HOST"}`,
    );
  }
  if (host === undefined || entry.hosts.some((pattern) => hostMatches(pattern, host))) return { ok: true, entry };
  const bound = entry.hosts.length === 0 ? "no host" : entry.hosts.join(", ");
  return refuse(
    "SecretNotBound",
    `secret "${entry.name}" may be sent to ${bound}, not to ${host}`,
    `in host.yaml: {name: ${entry.name}, hosts: [${[...entry.hosts, host].join(", ")}]}`,
  );
}

const refuse = (reason: "SecretUnknown" | "SecretNotBound" | "SecretMalformed", message: string, hint: string): SecretVerdict => ({
  ok: false,
  reason,
  message,
  hint,
});

interface Address {
  readonly name: string;
  readonly port?: string;
}

/** NAME, NAME:PORT, [V6] or [V6]:PORT; undefined for anything else, such as an address with a user or a path. */
export function parseHost(text: string): Address | undefined {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?$/.exec(text);
  if (match?.[1] === undefined) return undefined;
  const name = match[1].toLowerCase().replace(/\.$/, "");
  if (name === "" || name.startsWith(".") || name.includes("..")) return undefined;
  return match[2] === undefined ? { name } : { name, port: String(Number(match[2])) };
}

/** NAME matches every port of the name, NAME:PORT that one, *.NAME every name below it but not NAME itself. */
export function hostMatches(pattern: string, host: string): boolean {
  const at = parseHost(host);
  const wild = pattern.startsWith("*.");
  const want = parseHost(wild ? pattern.slice(2) : pattern);
  if (at === undefined || want === undefined) return false;
  if (want.port !== undefined && want.port !== at.port) return false;
  return wild ? at.name.endsWith(`.${want.name}`) && at.name.length > want.name.length + 1 : at.name === want.name;
}

/** NAME:PORT of an http(s) address, the port always said; undefined when it is none. */
export function hostOf(address: string): string | undefined {
  if (!URL.canParse(address)) return undefined;
  const url = new URL(address);
  if (url.protocol !== "https:" && url.protocol !== "http:") return undefined;
  return `${url.hostname}:${url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port}`;
}
