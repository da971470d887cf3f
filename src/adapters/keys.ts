// API keys on the gateway's shelf: their hashes and rights, and what they have used of their quota.
import { BeigeError } from "../core/errors.ts";
import { sha256 } from "../core/cap.ts";
import { KEY_PREFIX, ROLES, type KeyAsk, type KeyFound, type Keys, type KeyShown } from "../core/keys.ts";
import type { Clock, Random, Shelf } from "../core/world.ts";

const BYTES = 32;
const MOST = 10_000;
const DAY_MS = 86_400_000;
const WRITE_MS = 60_000;
/** Requests that are written as used ahead of time, so that a crash gives none away and not every request waits for the store. */
const AHEAD = 50;
const SESSIONS_MAX = 10_000;
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const AGENT = /^(\*|[a-z0-9][-a-z0-9]{0,62}(\.[a-z0-9][-a-z0-9]{0,62})?)$/;

interface Row extends KeyAsk {
  readonly hash: string;
  readonly createdAt: number;
  readonly revokedAt?: number;
}

interface Use {
  day: number;
  requests: number;
  /** Hashes of the names of this day's sessions. */
  sessions: string[];
  lastUsedAt?: number;
}

interface Entry {
  row: Row;
  readonly use: Use;
  /** Requests that are written as used. */
  written: number;
  writtenAt: number;
}

export interface KeysDeps {
  readonly shelf: Shelf;
  readonly clock: Pick<Clock, "now">;
  readonly random: Pick<Random, "hex">;
}

const rowKey = (name: string): string => `key/${name}`;
const useKey = (name: string): string => `key-use/${name}`;

function check(ask: KeyAsk, now: number): void {
  const wrong = (message: string, hint: string): BeigeError => new BeigeError("invalid", message, { hint });
  if (!NAME.test(ask.name)) throw wrong(`"${ask.name}" cannot name a key`, "lower-case letters, digits and '-', at most 63");
  if (!ROLES.includes(ask.role)) throw wrong(`there is no role "${ask.role}"`, ROLES.join(", "));
  const odd = ask.agents.find((agent) => !AGENT.test(agent));
  if (odd !== undefined) throw wrong(`"${odd}" does not name an agent`, "NAME, NAMESPACE.NAME or '*'");
  if (ask.role === "caller" && ask.agents.length === 0) throw wrong("a caller needs its agents", "--agent NAME, or --agent '*'");
  if (ask.role !== "caller" && ask.agents.length > 0) throw wrong(`agents bind callers, not a key of role ${ask.role}`, "--role caller");
  for (const what of ["requests", "sessions"] as const) {
    const n = ask[what];
    if (n !== undefined && (!Number.isSafeInteger(n) || n < 1 || (what === "sessions" && n > SESSIONS_MAX)))
      throw wrong(`${what} must be a number from 1 on`, what === "sessions" ? `at most ${SESSIONS_MAX}` : "or leave it away");
  }
  if (ask.expiresAt !== undefined && !(ask.expiresAt > now)) throw wrong("the key would have expired already", "--expires 30d");
}

const principalOf = (row: Row): Extract<KeyFound, { ok: true }>["principal"] =>
  row.role === "caller"
    ? { kind: "caller", key: row.name, agents: row.agents.map((agent) => agent.replace(/^default\./, "")) }
    : { kind: row.role, key: row.name };

function load(shelf: Shelf): Map<string, Entry> {
  const uses = new Map(shelf.list("key-use/").map(({ key, value }) => [key, JSON.parse(value) as Use]));
  return new Map(
    shelf.list("key/").map(({ value }) => {
      const row = JSON.parse(value) as Row;
      const use = uses.get(useKey(row.name)) ?? { day: 0, requests: 0, sessions: [] };
      return [row.name, { row, use, written: use.requests, writtenAt: 0 }];
    }),
  );
}

export function createKeys({ shelf, clock, random }: KeysDeps): Keys {
  const entries = load(shelf);
  const byHash = new Map([...entries.values()].map((entry) => [entry.row.hash, entry]));

  const must = (name: string): Entry => {
    const entry = entries.get(name);
    if (entry === undefined) throw new BeigeError("not_found", `there is no key ${name}`, { hint: "beige key list" });
    return entry;
  };
  const write = (entry: Entry, ahead: number): void => {
    const { row, use } = entry;
    entry.written = Math.min(use.requests + ahead, row.requests ?? Number.MAX_SAFE_INTEGER);
    entry.writtenAt = clock.now();
    shelf.set(useKey(row.name), JSON.stringify({ ...use, requests: Math.max(use.requests, entry.written) }));
  };
  /** What was used on another day counts no more. */
  const today = (entry: Entry): Use => {
    const day = Math.floor(clock.now() / DAY_MS);
    if (entry.use.day !== day) {
      Object.assign(entry.use, { day, requests: 0, sessions: [] });
      entry.written = 0;
    }
    return entry.use;
  };
  const exhausted = (message: string): BeigeError => {
    const retryAfterMs = DAY_MS - (clock.now() % DAY_MS);
    return new BeigeError("exhausted", message, { retryAfterMs, hint: "the day is UTC; the operator may give a key with more" });
  };
  const shown = (entry: Entry): KeyShown => {
    const { hash: _hidden, ...row } = entry.row;
    const { requests, sessions, lastUsedAt } = today(entry);
    return { ...row, ...(lastUsedAt === undefined ? {} : { lastUsedAt }), used: { requests, sessions: sessions.length } };
  };

  return {
    create(ask) {
      const now = clock.now();
      check(ask, now);
      if (entries.has(ask.name))
        throw new BeigeError("conflict", `there is, or was, a key ${ask.name}`, { hint: "give it another name; beige key list" });
      if (entries.size >= MOST) throw new BeigeError("exhausted", `there are ${MOST} keys already`);
      const secret = `${KEY_PREFIX}${Buffer.from(random.hex(BYTES), "hex").toString("base64url")}`;
      const row: Row = { ...ask, hash: sha256(secret), createdAt: now };
      const entry: Entry = { row, use: { day: 0, requests: 0, sessions: [] }, written: 0, writtenAt: 0 };
      shelf.set(rowKey(ask.name), JSON.stringify(row), true);
      entries.set(ask.name, entry);
      byHash.set(row.hash, entry);
      return { key: shown(entry), secret };
    },
    budget: (name) => entries.get(name)?.row.budget,
    good(name) {
      const row = entries.get(name)?.row;
      return row !== undefined && row.revokedAt === undefined && !(row.expiresAt !== undefined && row.expiresAt <= clock.now());
    },
    list: () => [...entries.values()].map(shown).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    revoke(name) {
      const entry = must(name);
      if (entry.row.revokedAt === undefined) {
        const row = { ...entry.row, revokedAt: clock.now() };
        shelf.set(rowKey(name), JSON.stringify(row), true);
        entry.row = row;
      }
      return shown(entry);
    },
    find(secret) {
      const entry = secret.startsWith(KEY_PREFIX) ? byHash.get(sha256(secret)) : undefined;
      if (entry === undefined) return { ok: false, why: "unknown" };
      const { row } = entry;
      if (row.revokedAt !== undefined) return { ok: false, why: "revoked" };
      if (row.expiresAt !== undefined && row.expiresAt <= clock.now()) return { ok: false, why: "expired" };
      return { ok: true, name: row.name, principal: principalOf(row) };
    },
    spend(name) {
      const entry = must(name);
      const use = today(entry);
      const { requests } = entry.row;
      if (requests !== undefined && use.requests >= requests) throw exhausted(`key ${name} has used its ${requests} requests of today`);
      use.requests += 1;
      use.lastUsedAt = clock.now();
      const late = clock.now() - entry.writtenAt >= WRITE_MS;
      if (late || (requests !== undefined && use.requests > entry.written)) write(entry, requests === undefined ? 0 : AHEAD);
    },
    session(name, session) {
      const entry = must(name);
      const { sessions } = entry.row;
      if (sessions === undefined) return;
      const use = today(entry);
      const hash = sha256(session).slice(0, 16);
      if (use.sessions.includes(hash)) return;
      if (use.sessions.length >= sessions) throw exhausted(`key ${name} has used its ${sessions} sessions of today`);
      use.sessions.push(hash);
      write(entry, AHEAD);
    },
    close() {
      for (const entry of entries.values()) if (entry.writtenAt > 0) write(entry, 0);
    },
  };
}
