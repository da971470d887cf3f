// Which hosts a sandbox may reach: the manifest's allowlist as rules, and the judgement on a target and its addresses. Pure.
import type { AgentSpec, HostPolicy } from "../../schemas/types.ts";
import type { AgentId } from "./call.ts";
import { isNowhere, notPublic, parseAddress } from "./egressaddress.ts";
import { hostMatches } from "./hostpolicy.ts";

type Network = AgentSpec["sandbox"]["network"];
type Entry = NonNullable<Network["allow"]>[number];

export interface Target {
  /** Lower case, without a final dot; an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
  /** The host is an address and no name. */
  readonly literal: boolean;
}

/** What the gateway puts into requests to a host, in place of whatever the sandbox sent. */
export interface Injection {
  /** Name of a secret in host.yaml. */
  readonly secret: string;
  /** Lower case. */
  readonly header: string;
  /** Written before the value. */
  readonly prefix: string;
}

export interface Rule {
  readonly host: string;
  /** Every name below the host, and not the host itself. */
  readonly wild: boolean;
  readonly ports: readonly number[];
  /** The operator may let it lead to addresses that are not public. */
  readonly private: boolean;
  readonly injection?: Injection;
}

export interface Refusal {
  /** Lower case; a sentence's second half. */
  readonly reason: string;
  /** What would allow it. */
  readonly hint: string;
}

const HTTPS = 443;
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** Resolvers read such a name as a number, and so as an address. */
const NUMERIC = /^(0x[0-9a-f]*|[0-9]+)$/;

/** A host name or an address in its plain form, as it is compared; undefined for anything else. */
function parseName(text: string): { readonly host: string; readonly literal: boolean } | undefined {
  const bracketed = text.startsWith("[") && text.endsWith("]");
  const name = bracketed ? text.slice(1, -1) : text.toLowerCase().replace(/\.$/, "");
  const bytes = parseAddress(name);
  if (bytes !== undefined) return (bytes.length === 16) === bracketed ? { host: plain(name, bytes), literal: true } : undefined;
  const labels = name.split(".");
  if (bracketed || name.length > 253 || !labels.every((label) => LABEL.test(label)) || NUMERIC.test(labels.at(-1) ?? "")) return undefined;
  return { host: name, literal: false };
}

/** One way to write an address, so that two writings of it are equal. */
const plain = (text: string, bytes: readonly number[]): string =>
  bytes.length === 4
    ? text
    : Array.from({ length: 8 }, (_, i) => (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16)).join(":");

function parsePort(text: string): number | undefined {
  const port = /^[1-9][0-9]{0,4}$/.test(text) ? Number(text) : undefined;
  return port !== undefined && port <= 65_535 ? port : undefined;
}

/** HOST:PORT, or HOST where a port is given for that case. Strict: nothing that two parsers could read in two ways. */
export function parseTarget(text: string, absent?: number): Target | undefined {
  const match = /^(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,254})(?::([0-9]{1,5}))?$/.exec(text);
  const name = match === null ? undefined : parseName(match[1] ?? "");
  const port = match?.[2] === undefined ? absent : parsePort(match[2]);
  return name === undefined || port === undefined ? undefined : { ...name, port };
}

export const targetText = ({ host, port }: Pick<Target, "host" | "port">): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

const HINT = 'write "api.example.com:443", "*.example.com", or {host: api.example.com, ports: [443]}';

function parseText(text: string): Rule | string {
  const wild = text.startsWith("*.");
  const target = parseTarget(wild ? text.slice(2) : text, HTTPS);
  if (target === undefined) return `"${text}" is no host and port`;
  if (wild && target.literal) return `"${text}" is an address: it has no names below it`;
  return { host: target.host, wild, ports: [target.port], private: false };
}

/** Headers that say where a message ends or goes: a secret has no business there. */
const FRAMING: readonly string[] = ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

function injectionOf(entry: Exclude<Entry, string>): Injection | string | undefined {
  if (entry.secret === undefined) {
    return entry.header === undefined && entry.prefix === undefined ? undefined : "header and prefix are for a secret, and none is named";
  }
  const header = (entry.header ?? "authorization").toLowerCase();
  if (FRAMING.includes(header) || header.startsWith("proxy-")) return `header ${header} cannot carry a secret`;
  return { secret: entry.secret, header, prefix: entry.prefix ?? (header === "authorization" ? "Bearer " : "") };
}

/** A rule, or what is wrong with the entry. */
export function parseEntry(entry: Entry): Rule | string {
  if (typeof entry === "string") return parseText(entry);
  const rule = /:\d+$/.test(entry.host) && !entry.host.endsWith("]") ? `"${entry.host}" has a port: write ports` : parseText(entry.host);
  if (typeof rule === "string") return rule;
  if (entry.private === true && rule.wild) return `"${entry.host}" names many hosts: private is for one`;
  const injection = injectionOf(entry);
  if (typeof injection === "string") return injection;
  if (injection !== undefined && rule.wild) return `"${entry.host}" names many hosts: a secret is for one`;
  const ports = entry.ports ?? [HTTPS];
  return { ...rule, ports, private: entry.private === true, ...(injection === undefined ? {} : { injection }) };
}

/** Problems of a manifest's list, by their place in it. */
export const entryProblems = (network: Network): readonly { readonly index: number; readonly message: string; readonly hint: string }[] =>
  (network.allow ?? []).flatMap((entry, index) => {
    const rule = parseEntry(entry);
    return typeof rule === "string" ? [{ index, message: rule, hint: HINT }] : [];
  });

/** Nothing unless the mode is allowlist; an entry that cannot be read allows nothing. */
export const rulesOf = (network: Network): readonly Rule[] =>
  network.mode === "allowlist" ? (network.allow ?? []).map(parseEntry).filter((rule) => typeof rule !== "string") : [];

function fits(rule: Rule, target: Target): boolean {
  if (!rule.ports.includes(target.port)) return false;
  return rule.wild ? !target.literal && target.host.endsWith(`.${rule.host}`) : target.host === rule.host;
}

/** The rule that names the target best: the host itself, with a secret, before names below a host. */
export function ruleFor(rules: readonly Rule[], target: Target): Rule | undefined {
  const rank = (rule: Rule): number => (rule.wild ? 0 : 1000) + (rule.injection === undefined ? 0 : 500) + rule.host.length;
  return rules.filter((rule) => fits(rule, target)).toSorted((a, b) => rank(b) - rank(a))[0];
}

/** As it would stand in the manifest with the target in it. */
export function allowLine(network: Network, target: Pick<Target, "host" | "port">): string {
  const known = network.mode === "allowlist" ? (network.allow ?? []) : [];
  const shown = known.slice(0, 20).map((entry) => JSON.stringify(entry));
  const more = known.length > shown.length ? ["..."] : [];
  return `spec.sandbox.network: {mode: allowlist, allow: [${[...shown, ...more, JSON.stringify(targetText(target))].join(", ")}]}`;
}

export const notListed = (network: Network, target: Target): Refusal => ({
  reason: `${targetText(target)} is not in the allowlist${network.mode === "none" ? ": spec.sandbox.network.mode is none" : ""}`,
  hint: allowLine(network, target),
});

/** Every address must be one that the rule may lead to: a name with one address among others that is not is refused whole. */
export function addressRefusal(
  asked: { readonly target: Target; readonly rule: Rule; readonly host: Pick<HostPolicy, "egress"> },
  addresses: readonly string[],
): Refusal | undefined {
  const { target, rule, host } = asked;
  const text = targetText(target);
  if (addresses.length === 0) return { reason: `${text} has no address`, hint: "check the name" };
  for (const address of addresses) {
    const why = notPublic(address);
    if (why === undefined) continue;
    const leads = `${text} leads to ${address}, which is ${why}`;
    if (isNowhere(why)) return { reason: leads, hint: "nothing allows it" };
    if (!rule.private) return { reason: leads, hint: `in the manifest: {host: "${target.host}", ports: [${target.port}], private: true}` };
    if (!(host.egress?.private ?? []).some((pattern) => privateMatches(pattern, target)))
      return { reason: `${leads}, and host.yaml does not allow it`, hint: `in host.yaml: egress: {private: ["${text}"]}` };
  }
  return undefined;
}

const privateMatches = (pattern: string, target: Target): boolean => {
  const one = parseTarget(pattern, target.port);
  return one === undefined
    ? pattern.startsWith("*.") && hostMatches(pattern, targetText(target))
    : one.host === target.host && one.port === target.port;
};

/** The judgement on a target without a connection to it. */
export interface EgressVerdict {
  readonly target: string;
  readonly allowed: boolean;
  readonly addresses: readonly string[];
  /** Name of the secret that requests would get. */
  readonly secret?: string;
  readonly reason?: string;
  readonly hint?: string;
}

export interface EgressDesk {
  /** `target` is HOST or HOST:PORT; the host is resolved, no connection is made. */
  test(agent: AgentId, target: string): Promise<EgressVerdict>;
}

/** What a client inside must be told so that it takes the way through the gateway. */
export const PROXY = "http://127.0.0.1:3128";
export const BUNDLE = "ca.pem";

/** Variables of a command; the manifest's own win. */
export function egressEnvironment(sandbox: AgentSpec["sandbox"]): Readonly<Record<string, string>> {
  if (sandbox.network.mode === "open") return {};
  const bundle = `/beige/${BUNDLE}`;
  const wanted: Readonly<Record<string, string>> = {
    HTTP_PROXY: PROXY,
    http_proxy: PROXY,
    HTTPS_PROXY: PROXY,
    https_proxy: PROXY,
    NO_PROXY: "localhost,127.0.0.1,::1",
    no_proxy: "localhost,127.0.0.1,::1",
    // Node reads the others only then.
    NODE_USE_ENV_PROXY: "1",
    ...(needsBundle(sandbox.network)
      ? {
          SSL_CERT_FILE: bundle,
          NODE_EXTRA_CA_CERTS: bundle,
          CURL_CA_BUNDLE: bundle,
          GIT_SSL_CAINFO: bundle,
          REQUESTS_CA_BUNDLE: bundle,
        }
      : {}),
  };
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => !Object.hasOwn(sandbox.env, name)));
}

/** Whether the gateway answers some host's TLS itself, so that commands have to know its authority. */
export const needsBundle = (network: Network): boolean => rulesOf(network).some((rule) => rule.injection !== undefined);
