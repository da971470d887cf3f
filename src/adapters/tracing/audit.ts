// Tells a chain's calls as spans: every turn, request and tool call has its rows there, whichever door it came through.
import type { Audit, AuditCall, AuditOutcome } from "../../core/audit.ts";
import type { Tracing } from "../../core/tracing.ts";

/** The same chain, told. The first rows wait until there is somebody to tell. */
export function traced<A extends Audit>(chain: A, loaded: Promise<Tracing>): A {
  let tracing: Tracing | undefined;
  const ready = async (): Promise<Tracing> => (tracing ??= await loaded);
  return {
    ...chain,
    async begin(call: string, row: AuditCall) {
      const spans = tracing ?? (await ready());
      spans.begin(call, row);
      try {
        await chain.begin(call, row);
      } catch (error) {
        spans.end(call, row, { outcome: "failed" });
        throw error;
      }
    },
    // Not late: who writes this row may not wait for it.
    end(call: string, row: AuditCall, outcome: AuditOutcome) {
      tracing?.end(call, row, outcome);
      return chain.end(call, row, outcome);
    },
    async denied(call: string, row: AuditCall, error: string) {
      const spans = tracing ?? (await ready());
      spans.begin(call, row);
      spans.end(call, row, { error });
      await chain.denied(call, row, error);
    },
  };
}
