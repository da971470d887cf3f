// Sends spans by OTLP over HTTP, in batches from a bounded queue; what the collector does not take is dropped and said once.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, TracerProvider, type SpanExporter } from "@opentelemetry/sdk-trace";
import type { Tracing } from "../../core/tracing.ts";
import type { Log } from "../../core/world.ts";
import { SCHEMA_URL } from "./attributes.ts";
import { createSpans } from "./spans.ts";

const QUEUE_MAX = 4096;
const BATCH_MAX = 512;
const DELAY_MS = 1000;
const EXPORT_MS = 5000;
const CLOSE_MS = 1500;
/** Of one attribute: names and ids are short. */
const TEXT_MAX = 256;

export interface Exporting {
  /** Where spans are posted to. */
  readonly url: string;
  readonly service: string;
  readonly version: string;
  readonly log: Log;
}

export function exporting({ url, service, version, log }: Exporting): Tracing {
  const exporter = told(new OTLPTraceExporter({ url, timeoutMillis: EXPORT_MS }), url, log);
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: QUEUE_MAX,
    maxExportBatchSize: BATCH_MAX,
    scheduledDelayMillis: DELAY_MS,
    exportTimeoutMillis: EXPORT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": service, "service.version": version }),
    spanProcessors: [processor],
    spanLimits: { attributeValueLengthLimit: TEXT_MAX, attributeCountLimit: 32 },
  });
  const spans = createSpans(provider.getTracer("beige", version, { schemaUrl: SCHEMA_URL }));
  return {
    ...spans,
    async close() {
      const late = new Promise<void>((done) => setTimeout(done, CLOSE_MS).unref());
      await Promise.race([provider.shutdown().catch(() => undefined), late]);
    },
  };
}

/** The same exporter; that it fails, and that it works again, is one line each. */
function told(exporter: SpanExporter, url: string, log: Log): SpanExporter {
  let failing = false;
  // Where it is, without what may be a secret in it.
  const host = new URL(url).host;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.error !== undefined;
        if (failed && !failing)
          log.warn("spans are not taken, and dropped", { collector: host, error: result.error?.message ?? "refused" });
        if (!failed && failing) log.info("spans are taken again", { collector: host });
        failing = failed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
