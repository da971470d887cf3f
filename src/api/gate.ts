// Who may speak at all: Host, Origin and token, before a request reaches any route.
import { hash, timingSafeEqual } from "node:crypto";
import type { Keys } from "../core/keys.ts";
import type { Principal } from "../core/call.ts";
import type { By, Door as AnyDoor } from "../core/who.ts";
import { forbidden } from "./allow.ts";
import { refusalOf, Refusal } from "./status.ts";

/** The unix socket is guarded by its file mode; TCP can be reached by web pages and by every user of the machine. */
export type Door = Exclude<AnyDoor, "source">;

export interface Knock {
  readonly door: Door;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Names and values in turn, as received: shows headers that came twice. */
  readonly rawHeaders: readonly string[];
}

export interface Gate {
  /** Host header values that name us, lower case, with port. */
  readonly hosts: ReadonlySet<string>;
  readonly token: string;
  readonly keys?: Keys;
  readonly home: string;
  /** A body that says it is longer is refused unread. */
  readonly bodyBytes: number;
}

const METHODS: ReadonlySet<string> = new Set(["GET", "POST", "PUT", "PATCH", "DELETE"]);
/** Answers without a token, and then says no more than one word. */
export const OPEN_PATH = "/api/health";

export const hostsOf = (port: number): ReadonlySet<string> => new Set([`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]);

export interface Admitted {
  /** Absent for the one path that answers anybody. */
  readonly by?: By;
  /** Why the request is turned away; whoever asked may be known all the same. */
  readonly no?: Refusal;
}

/** Who asks, and whether the request is let in. A request of a key that is let in has been counted. */
export function admit(knock: Knock, gate: Gate): Admitted {
  const bad = form(knock) ?? (knock.door === "socket" ? undefined : host(knock, gate)) ?? origin(knock, gate);
  if (bad !== undefined) return { no: bad };
  const found = identify(knock, gate);
  if (found instanceof Refusal) return isOpen(knock) ? {} : { no: found };
  const by: By = { principal: found, door: knock.door };
  const no = size(knock, gate) ?? forbidden(found, knock) ?? overspent(found, gate);
  return no === undefined ? { by } : { by, no };
}

/** Why this request is turned away; undefined lets it in. */
export const refusal = (knock: Knock, gate: Gate): Refusal | undefined => admit(knock, gate).no;

function identify(knock: Knock, gate: Gate): Principal | Refusal {
  if (knock.door === "socket") return { kind: "operator" };
  // Clients of Anthropic's API send the same token in a header of their own.
  const given = /^Bearer +(\S+) *$/i.exec(header(knock, "authorization") ?? "")?.[1] ?? header(knock, "x-api-key");
  if (given === undefined) return noToken(gate);
  // Constant time in the token.
  if (gate.token !== "" && timingSafeEqual(digest(given), digest(gate.token))) return { kind: "operator" };
  const found = gate.keys?.find(given);
  if (found?.ok === true) return found.principal;
  if (found === undefined || found.why === "unknown") return noToken(gate);
  return new Refusal(
    401,
    "Unauthorized",
    `this key ${found.why === "revoked" ? "was revoked" : "has expired"}`,
    "ask the operator for another",
  );
}

function overspent(principal: Principal, { keys }: Gate): Refusal | undefined {
  if (!("key" in principal) || principal.key === undefined) return undefined;
  try {
    keys?.spend(principal.key);
    return undefined;
  } catch (error) {
    return refusalOf(error);
  }
}

const digest = (text: string): Buffer => hash("sha256", text, "buffer");

function header(knock: Pick<Knock, "headers">, name: string): string | undefined {
  const value = knock.headers[name];
  return typeof value === "string" ? value : value?.[0];
}

function form(knock: Knock): Refusal | undefined {
  if (!METHODS.has(knock.method)) return new Refusal(405, "MethodNotAllowed", `method ${knock.method} is not offered`);
  if (!knock.url.startsWith("/")) return new Refusal(400, "BadRequest", "the request target must be a path");
  // No client sends a fragment; a router cuts it off, and what is matched before it would see another path.
  if (knock.url.includes("#")) return new Refusal(400, "BadRequest", "the request target must have no fragment");
  const names = knock.rawHeaders.filter((_, i) => i % 2 === 0).map((n) => n.toLowerCase());
  for (const name of ["host", "origin", "authorization", "x-api-key", "content-type"]) {
    if (names.indexOf(name) !== names.lastIndexOf(name)) return new Refusal(400, "BadRequest", `header ${name} came more than once`);
  }
  return undefined;
}

/** A page that rebinds its own name to 127.0.0.1 still sends its own name. */
function host(knock: Knock, gate: Gate): Refusal | undefined {
  if (gate.hosts.has((header(knock, "host") ?? "").toLowerCase())) return undefined;
  return new Refusal(421, "MisdirectedRequest", "this host name is not served here", `use ${[...gate.hosts].join(" or ")}`);
}

function origin(knock: Knock, gate: Gate): Refusal | undefined {
  const from = header(knock, "origin");
  const site = header(knock, "sec-fetch-site");
  const own = from === undefined || (knock.door !== "socket" && from.startsWith("http://") && gate.hosts.has(from.slice(7).toLowerCase()));
  if (own && (site === undefined || site === "same-origin" || site === "none")) return undefined;
  return new Refusal(403, "Forbidden", "requests from other web pages are refused");
}

function size(knock: Knock, gate: Gate): Refusal | undefined {
  if (Number(header(knock, "content-length") ?? "0") <= gate.bodyBytes) return undefined;
  return new Refusal(
    413,
    "RequestEntityTooLarge",
    `the request body is longer than ${gate.bodyBytes} bytes`,
    "split it into several requests",
  );
}

const isOpen = (knock: Knock): boolean => knock.method === "GET" && knock.url.split("?", 1)[0] === OPEN_PATH;

function noToken(gate: Gate): Refusal {
  const hint = `send "Authorization: Bearer TOKEN" with the content of ${gate.home}/token, or use the unix socket ${gate.home}/beige.sock`;
  return new Refusal(401, "Unauthorized", "a bearer token is needed", hint);
}
