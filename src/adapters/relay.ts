// Sends a client's own request to a provider of the same wire format, byte for byte where nothing has to change.
import { blankFailure, exchange, LIMITS, type Limits } from "./relay/exchange.ts";
import { completions } from "./relay/completions.ts";
import { messages } from "./relay/messages.ts";
import { createAgents, postWith } from "./relay/post.ts";
import { responses } from "./relay/responses.ts";
import type { Format } from "./relay/format.ts";
import type { Relay } from "../core/road.ts";

const FORMATS: Readonly<Record<string, Format>> = {
  "openai-completions": completions,
  "openai-responses": responses,
  "anthropic-messages": messages,
};

export function createRelay(limits: Partial<Limits> = {}): Relay {
  const agents = createAgents();
  const bounds = { ...LIMITS, ...limits };
  return {
    send(target, wire, signal) {
      const format = target.api === wire.api ? FORMATS[wire.api] : undefined;
      if (format === undefined) return blankFailure(target, `api '${target.api}' is not asked in the format '${wire.api}'`);
      return exchange(postWith(agents, signal), { target, wire, format }, bounds);
    },
  };
}
