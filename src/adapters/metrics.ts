// The one door to prom-client: counters, histograms and gauges of the gateway, in the text format of Prometheus.
import type { Gauge, Registry } from "prom-client";
import type { Counts, Levels, Metrics, Times } from "../core/metrics.ts";
import { createTally, type Labels } from "./metrics/tally.ts";

/** Times of one series that are kept until somebody asks; then the library takes them into its buckets. */
const TIMES_MAX = 1_000;
const LISTED_MAX = 500;

interface About {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

const COUNTS: Readonly<Record<keyof Counts, About>> = {
  llmRequests: { name: "beige_llm_requests_total", help: "Attempts of LLM requests that ended.", labels: ["provider", "model", "outcome"] },
  llmTokens: { name: "beige_llm_tokens_total", help: "Tokens that providers told.", labels: ["provider", "model", "kind"] },
  llmUsd: { name: "beige_llm_cost_usd_total", help: "US dollars, at the prices of the manifests.", labels: ["provider", "model"] },
  toolCalls: { name: "beige_tool_calls_total", help: "Tool calls that ended or were refused.", labels: ["tool", "outcome"] },
  turns: { name: "beige_turns_total", help: "Turns of agents that ended.", labels: ["outcome"] },
  reconciles: { name: "beige_reconciles_total", help: "Passes over objects.", labels: ["kind", "outcome"] },
  auditRows: { name: "beige_audit_rows_total", help: "Rows appended to the audit chains.", labels: ["chain", "phase"] },
};

const LONG = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const SHORT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

const TIMES: Readonly<Record<keyof Times, About & { readonly buckets: number[] }>> = {
  llmDuration: {
    name: "beige_llm_request_duration_seconds",
    help: "From sending an attempt to the end of its answer.",
    labels: ["provider", "model"],
    buckets: LONG,
  },
  llmFirstToken: {
    name: "beige_llm_time_to_first_token_seconds",
    help: "From sending an attempt to its first content.",
    labels: ["provider", "model"],
    buckets: SHORT,
  },
  llmWait: { name: "beige_llm_slot_wait_seconds", help: "Wait for a slot of the provider.", labels: ["provider"], buckets: SHORT },
  toolDuration: { name: "beige_tool_call_duration_seconds", help: "How long tool calls ran.", labels: ["tool"], buckets: SHORT },
  turnDuration: { name: "beige_turn_duration_seconds", help: "How long turns of agents ran.", labels: [], buckets: LONG },
};

interface Instruments {
  count(what: keyof Counts, labels: Labels, by: number): void;
  time(what: keyof Times, labels: Labels, seconds: number): void;
  readonly registry: Registry;
}

export function createMetrics(deps: { readonly levels: () => Levels }): Metrics {
  const counts = createTally<keyof Counts>();
  const times = createTally<keyof Times>();
  let loading: Promise<Instruments> | undefined;

  /** Hands over what came since the last time. */
  const handOver = async (): Promise<Registry> => {
    const into = await (loading ??= import("prom-client").then((library) => build(library, deps.levels)));
    for (const series of counts.all()) {
      if (series.sum > 0) into.count(series.what, series.labels, series.sum);
      series.sum = 0;
    }
    for (const { what, labels, times: took } of times.all()) for (const seconds of took.splice(0)) into.time(what, labels, seconds);
    return into.registry;
  };

  return {
    count: (what, labels, by = 1) => {
      if (Number.isFinite(by) && by > 0) counts.of(what, labels).sum += by;
    },
    time: (what, labels, seconds) => {
      if (!Number.isFinite(seconds) || seconds < 0) return;
      const took = times.of(what, labels).times;
      if (took.length < 2 * TIMES_MAX) took.push(seconds);
      if (took.length === TIMES_MAX) void handOver().catch(() => undefined);
    },
    async text() {
      const registry = await handOver();
      return { type: registry.contentType, body: await registry.metrics() };
    },
  };
}

/** Gauges of the library whose names promtool finds wrong: totals that are none. */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

function build(library: typeof import("prom-client"), levels: () => Levels): Instruments {
  const registry = new library.Registry();
  const registers = [registry];
  library.collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 50 });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const counters = mapped(COUNTS, ({ name, help, labels }) => new library.Counter({ name, help, labelNames: labels, registers }));
  const histograms = mapped(
    TIMES,
    ({ name, help, labels, buckets }) => new library.Histogram({ name, help, labelNames: labels, buckets, registers }),
  );
  addLevels((options) => new library.Gauge({ ...options, registers }), levels);
  return {
    registry,
    count: (what, labels, by) => counters[what].inc(labels, by),
    time: (what, labels, seconds) => histograms[what].observe(labels, seconds),
  };
}

const mapped = <K extends string, A, B>(from: Readonly<Record<K, A>>, make: (about: A) => B): Record<K, B> =>
  Object.fromEntries(Object.entries(from).map(([key, about]) => [key, make(about as A)])) as Record<K, B>;

type MakeGauge = (options: {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
  readonly collect: (this: Gauge) => void;
}) => Gauge;

/** Read when somebody asks, so that nothing has to be kept in step. */
function addLevels(make: MakeGauge, levels: () => Levels): void {
  const slots = [
    ["used", "beige_provider_slots_used", "Requests that a provider works on."],
    ["waiting", "beige_provider_slots_waiting", "Requests that wait for a slot of a provider."],
    ["limit", "beige_provider_slots_limit", "Slots of a provider; -1 is no limit."],
  ] as const;
  for (const [key, name, help] of slots) {
    make({
      name,
      help,
      labelNames: ["provider"],
      collect() {
        this.reset();
        for (const slot of levels().slots.slice(0, LISTED_MAX)) this.set({ provider: slot.provider }, slot[key]);
      },
    });
  }
  const sessions = [
    ["open", "beige_sessions_open", "Sessions in memory."],
    ["busy", "beige_sessions_busy", "Sessions with a turn running or waiting."],
  ] as const;
  for (const [key, name, help] of sessions) {
    make({
      name,
      help,
      collect() {
        this.set(levels().sessions[key]);
      },
    });
  }
}
