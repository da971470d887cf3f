// What is counted about the gateway's work, for whoever watches it from outside. The labels of each are a closed or a bounded set.

/** Labels never hold a session, a text or a name that a caller made up. */
export interface Counts {
  readonly llmRequests: { readonly provider: string; readonly model: string; readonly outcome: string };
  readonly llmTokens: {
    readonly provider: string;
    readonly model: string;
    readonly kind: "input" | "output" | "cache_read" | "cache_write";
  };
  readonly llmUsd: { readonly provider: string; readonly model: string };
  readonly toolCalls: { readonly tool: string; readonly outcome: string };
  readonly turns: { readonly outcome: string };
  readonly reconciles: { readonly kind: string; readonly outcome: string };
  readonly auditRows: { readonly chain: string; readonly phase: string };
}

/** In seconds. */
export interface Times {
  readonly llmDuration: { readonly provider: string; readonly model: string };
  readonly llmFirstToken: { readonly provider: string; readonly model: string };
  readonly llmWait: { readonly provider: string };
  readonly toolDuration: { readonly tool: string };
  readonly turnDuration: object;
}

/** Looked at when somebody asks. */
export interface Levels {
  readonly slots: readonly { readonly provider: string; readonly used: number; readonly waiting: number; readonly limit: number }[];
  /** Sessions that are open in memory, and those with a turn running or waiting. */
  readonly sessions: { readonly open: number; readonly busy: number };
}

export interface Metrics {
  count<K extends keyof Counts>(what: K, labels: Counts[K], by?: number): void;
  time<K extends keyof Times>(what: K, labels: Times[K], seconds: number): void;
  /** In the text format of Prometheus. */
  text(): Promise<{ readonly type: string; readonly body: string }>;
}
