// The door to OpenTelemetry: nothing of it is loaded unless a collector is named, by the environment or by host.yaml.
import type { Audit } from "../core/audit.ts";
import { NO_TRACING, type Tracing } from "../core/tracing.ts";
import type { Log } from "../core/world.ts";
import { SCHEMA_URL } from "./tracing/attributes.ts";
import { traced } from "./tracing/audit.ts";

/** Version of the conventions that spans are named by. */
export const CONVENTIONS = SCHEMA_URL;

type Env = Readonly<Record<string, string | undefined>>;

export interface TracingOptions {
  readonly env: Env;
  /** Base address of a collector; the environment wins. */
  readonly endpoint?: string;
  readonly version: string;
  readonly log: Log;
}

export interface Told {
  /** The same chain, its calls told as spans. */
  traced<A extends Audit>(chain: A): A;
  /** Sends what is left; bounded. */
  stop(): Promise<void>;
}

/** Where spans are posted to; undefined for nowhere. The variables are OpenTelemetry's own. */
export function tracesUrl(env: Env, endpoint?: string): string | undefined {
  if (env["OTEL_SDK_DISABLED"] === "true") return undefined;
  const exact = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  if (exact !== undefined && exact !== "") return exact;
  const base = env["OTEL_EXPORTER_OTLP_ENDPOINT"] || endpoint;
  return base === undefined || base === "" ? undefined : `${base.replace(/\/+$/, "")}/v1/traces`;
}

/** Undefined where nobody watches. What cannot be sent is said and costs nothing else. */
export function createTracing(options: TracingOptions): Told | undefined {
  const { env, log } = options;
  const url = tracesUrl(env, options.endpoint);
  if (url === undefined) return undefined;
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
    log.warn("no spans are sent: the collector's address is not an http address", {});
    return undefined;
  }
  const loaded: Promise<Tracing> = import("./tracing/export.ts").then(
    ({ exporting }) => exporting({ ...options, url, service: env["OTEL_SERVICE_NAME"] || "beige" }),
    (error: unknown) => {
      log.error("no spans are sent", { error: String(error) });
      return NO_TRACING;
    },
  );
  return {
    traced: (chain) => traced(chain, loaded),
    stop: async () => (await loaded).close(),
  };
}
