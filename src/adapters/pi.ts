// The door to the pi SDK: providers' wire formats and the agent loop. Nothing of it is loaded before the first use.
import type { Llm, SessionRuntime } from "../core/chat.ts";
import type { Log } from "../core/world.ts";
import { createSessionFiles } from "./pi/transcript.ts";

export interface Pi {
  /** Speaks every API type but echo. */
  readonly llm: Llm;
  readonly runtime: SessionRuntime;
  /** Loads what the first conversation will need, in steps too small to hold anybody up. */
  warm(): Promise<void>;
}

export function createPi(deps: { readonly log: Log }): Pi {
  let warmed: Promise<void> | undefined;
  return {
    warm: () => (warmed ??= warm(deps.log)),
    llm: {
      async *stream(target, context, options, signal) {
        const { streamWire } = await import("./pi/wire.ts");
        yield* streamWire(target, { context, options }, signal);
      },
    },
    runtime: {
      files: createSessionFiles(),
      async open(options) {
        const { openSession } = await import("./pi/session.ts");
        return await openSession(options, deps.log);
      },
    },
  };
}

async function warm(log: Log): Promise<void> {
  try {
    const { loadGently } = await import("./pi/warm.ts");
    const resolve = (specifier: string): string => import.meta.resolve(specifier);
    await loadGently(resolve("@mariozechner/pi-coding-agent"), resolve);
    await (await import("./pi/sdk.ts")).prepare();
  } catch (error) {
    log.warn("the agent loop is not loaded ahead", { error: String(error) });
  }
}
