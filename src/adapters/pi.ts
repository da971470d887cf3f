// The door to the pi SDK: providers' wire formats and the agent loop. Nothing of it is loaded before the first use, which most of the
// memory of a gateway would go to.
import type { Llm, SessionRuntime } from "../core/chat.ts";
import type { Log } from "../core/world.ts";
import { createSessionFiles } from "./pi/transcript.ts";

export interface Pi {
  /** Speaks every API type but echo. */
  readonly llm: Llm;
  readonly runtime: SessionRuntime;
  /** Loads what conversations need, once, in steps too small to hold anybody up. */
  warm(): Promise<void>;
}

interface PiDeps {
  readonly log: Log;
  /** Whether anybody would be held up by the first conversation, which loads all this. Nobody when absent. */
  readonly busy?: () => boolean;
}

export function createPi(deps: PiDeps): Pi {
  let warmed: Promise<void> | undefined;
  const warm = (): Promise<void> => (warmed ??= loaded(deps.log));
  return {
    warm,
    llm: {
      async *stream(target, context, options, signal) {
        const { streamWire } = await import("./pi/wire.ts");
        yield* streamWire(target, { context, options }, signal);
      },
    },
    runtime: {
      files: createSessionFiles(),
      async open(options) {
        // In steps it takes three times as long, which is paid only where somebody is served meanwhile.
        if (warmed !== undefined || deps.busy?.() === true) await warm();
        const { openSession } = await import("./pi/session.ts");
        return await openSession(options, deps.log);
      },
    },
  };
}

async function loaded(log: Log): Promise<void> {
  try {
    const { loadGently } = await import("./pi/warm.ts");
    const resolve = (specifier: string): string => import.meta.resolve(specifier);
    await loadGently(resolve("@mariozechner/pi-coding-agent"), resolve);
    await (await import("./pi/sdk.ts")).prepare();
  } catch (error) {
    log.warn("the agent loop is not loaded ahead", { error: String(error) });
  }
}
