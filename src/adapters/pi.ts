// The door to the pi SDK: providers' wire formats and the agent loop. Nothing of it is loaded before the first use.
import type { Llm, SessionRuntime } from "../core/chat.ts";
import type { Log } from "../core/world.ts";
import { createSessionFiles } from "./pi/transcript.ts";

export interface Pi {
  /** Speaks every API type but echo. */
  readonly llm: Llm;
  readonly runtime: SessionRuntime;
}

export function createPi(deps: { readonly log: Log }): Pi {
  return {
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
