// What was spent, as it is stored and told: the ports between ledger, store and doors.
import type { BudgetLimits } from "../../schemas/types.ts";

/** Whose budget. Agents are named NAME or NS.NAME: an agent that is made anew goes on where it was. */
export interface Scope {
  readonly kind: "agent" | "key" | "provider";
  readonly name: string;
}

/** `nano`: billionths of a US dollar, whole, so that sums are exact. */
export interface Charge {
  readonly requests: number;
  readonly tokens: number;
  readonly nano: number;
}

/** One attempt as it is reserved. */
export interface LedgerRow {
  readonly id: number;
  readonly call: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly agent?: string;
  readonly key?: string;
  readonly session?: string;
  readonly provider: string;
  readonly model: string;
  readonly reserved: { readonly tokens: number; readonly nano: number };
  /** Whether the model's price is known. */
  readonly priced: boolean;
}

/** `estimated`: whoever answered did not say what it used, so the reserve stands. `lost`: the gateway ended first, and it stands too. */
export type LedgerState = "open" | "answered" | "failed" | "cancelled" | "estimated" | "lost";

export interface LedgerEnd {
  readonly state: Exclude<LedgerState, "open" | "lost">;
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly tokens: number;
  readonly nano: number;
}

export const USAGE_BY = ["agent", "model", "provider", "key", "session"] as const;
export type UsageBy = (typeof USAGE_BY)[number];

export interface UsageAsk {
  readonly by: UsageBy;
  /** Milliseconds since the epoch; `until` is not in it. */
  readonly since: number;
  readonly until: number;
  /** Dearest first; the others become one line. */
  readonly limit: number;
}

export interface UsageLine {
  /** `-` where there is none, such as requests without a key. */
  readonly name: string;
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly tokens: number;
  readonly usd: number;
  /** Requests whose model has no known price. */
  readonly unpriced: number;
  /** Requests that run now, counted at their reserve. */
  readonly open: number;
}

export interface UsageReport {
  readonly by: UsageBy;
  /** RFC 3339. */
  readonly since: string;
  readonly until: string;
  readonly items: readonly UsageLine[];
  readonly total: UsageLine;
}

export type Period = "daily" | "monthly";
export type Measure = keyof BudgetLimits;

/** How one limit stands. */
export interface BudgetLine {
  readonly scope: Scope;
  readonly period: Period;
  readonly measure: Measure;
  readonly limit: number;
  readonly spent: number;
  /** By requests that run now. */
  readonly reserved: number;
  /** RFC 3339. */
  readonly resetsAt: string;
}

/** Reads the ledger. */
export interface Accounts {
  usage(ask: UsageAsk): Promise<UsageReport>;
  /** The limits that are set, of at most a thousand scopes, or those of one. */
  budgets(scope?: Scope): readonly BudgetLine[];
}

/** The ledger's rows. What opens is written together at the end of this turn of the event loop, what ends a moment later. */
export interface LedgerBook {
  /** A number for the next row. */
  next(): number;
  open(row: LedgerRow): void;
  close(row: LedgerRow, end: LedgerEnd): void;
  /** What was charged to a scope on these UTC days (days since the epoch, both in it): settled rows as they ended, open ones at their reserve. */
  charged(scope: Scope, from: number, to: number): Charge;
  usage(ask: UsageAsk): Promise<UsageReport>;
  /** Writes what is kept. Throws `unavailable`, and keeps it. */
  flush(): void;
  /** Writes what is kept; nothing is written afterwards, since the file is about to close. */
  end(): void;
  /** Whether the last write failed: then nothing new may be spent. */
  failing(): boolean;
}
