// API keys: who may come in by a bearer token that is not the operator's, as what, and how often. Only the hash of a key is ever kept.
import type { Principal } from "./call.ts";
import type { Budget } from "../../schemas/types.ts";

/** `operator` may do everything, `caller` prompts and calls its agents, `viewer` reads. */
export const ROLES = ["operator", "caller", "viewer"] as const;
export type Role = (typeof ROLES)[number];

export const KEY_PREFIX = "bge_";

export interface KeyAsk {
  readonly name: string;
  readonly role: Role;
  /** NAME or NS.NAME, or `*`; of callers only. */
  readonly agents: readonly string[];
  /** Requests a UTC day. */
  readonly requests?: number;
  /** Sessions that may be opened or used in a UTC day. */
  readonly sessions?: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number;
  /** Of what it may spend on LLM requests. */
  readonly budget?: Budget;
}

/** A key as it may be shown: nothing of it leads to the secret. */
export interface KeyShown extends KeyAsk {
  readonly createdAt: number;
  readonly revokedAt?: number;
  /** Written at most once a minute. */
  readonly lastUsedAt?: number;
  /** Of this UTC day. */
  readonly used: { readonly requests: number; readonly sessions: number };
}

export type KeyFound =
  | { readonly ok: true; readonly name: string; readonly principal: Principal }
  | { readonly ok: false; readonly why: "unknown" | "revoked" | "expired" };

export interface Keys {
  /** The secret is answered here and never again. Throws `invalid`, or `conflict` when the name was used before. */
  create(ask: KeyAsk): { readonly key: KeyShown; readonly secret: string };
  /** By name. */
  list(): readonly KeyShown[];
  /** In force for the next request; whoever serves what runs cuts it. Throws `not_found`. */
  revoke(name: string): KeyShown;
  find(secret: string): KeyFound;
  /** Whether the key with this name is still one: neither revoked nor expired. Cheap. */
  good(name: string): boolean;
  /** Of the key with this name, at every request: cheap. */
  budget(name: string): Budget | undefined;
  /** Counts one request. Throws `exhausted` when the day's are used up. */
  spend(name: string): void;
  /** Counts a session; one that was counted today costs nothing. Throws `exhausted`. */
  session(name: string, session: string): void;
  /** Writes what is counted and not yet written. */
  close(): void;
}
