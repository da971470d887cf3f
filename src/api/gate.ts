// Who may speak at all: Host, Origin and token, before a request reaches any route.
import { createHash, timingSafeEqual } from "node:crypto";
import { Refusal } from "./status.ts";

/** The unix socket is guarded by its file mode; TCP can be reached by web pages and by every user of the machine. */
export type Door = "socket" | "tcp";

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
  readonly home: string;
  /** A body that says it is longer is refused unread. */
  readonly bodyBytes: number;
}

const METHODS: ReadonlySet<string> = new Set(["GET", "POST", "PUT", "PATCH", "DELETE"]);
/** Answers without a token, and then says no more than one word. */
export const OPEN_PATH = "/api/health";

export const hostsOf = (port: number): ReadonlySet<string> => new Set([`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]);

/** Why this request is turned away; undefined lets it in. */
export function refusal(knock: Knock, gate: Gate): Refusal | undefined {
  return (
    form(knock) ?? (knock.door === "tcp" ? host(knock, gate) : undefined) ?? origin(knock, gate) ?? token(knock, gate) ?? size(knock, gate)
  );
}

/** Whether the request is the operator's. Constant time in the token. */
export function isOperator(knock: Pick<Knock, "door" | "headers">, gate: Pick<Gate, "token">): boolean {
  if (knock.door === "socket") return true;
  const given = /^Bearer +(\S+) *$/i.exec(header(knock, "authorization") ?? "")?.[1];
  if (given === undefined || gate.token === "") return false;
  return timingSafeEqual(digest(given), digest(gate.token));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

function header(knock: Pick<Knock, "headers">, name: string): string | undefined {
  const value = knock.headers[name];
  return typeof value === "string" ? value : value?.[0];
}

function form(knock: Knock): Refusal | undefined {
  if (!METHODS.has(knock.method)) return new Refusal(405, "MethodNotAllowed", `method ${knock.method} is not offered`);
  if (!knock.url.startsWith("/")) return new Refusal(400, "BadRequest", "the request target must be a path");
  const names = knock.rawHeaders.filter((_, i) => i % 2 === 0).map((n) => n.toLowerCase());
  for (const name of ["host", "origin", "authorization", "content-type"]) {
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
  const own = from === undefined || (knock.door === "tcp" && from.startsWith("http://") && gate.hosts.has(from.slice(7).toLowerCase()));
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

function token(knock: Knock, gate: Gate): Refusal | undefined {
  if (isOperator(knock, gate)) return undefined;
  if (knock.method === "GET" && knock.url.split("?", 1)[0] === OPEN_PATH) return undefined;
  const hint = `send "Authorization: Bearer TOKEN" with the content of ${gate.home}/token, or use the unix socket ${gate.home}/beige.sock`;
  return new Refusal(401, "Unauthorized", "a bearer token is needed", hint);
}
