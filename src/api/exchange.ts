// One request and its answer: what handlers are given, and how they learn that the client has left.
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { BeigeError } from "../core/errors.ts";
import type { By } from "../core/who.ts";
import type { Unknowns } from "./fields.ts";
import { record } from "./fields.ts";

export interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** "GET /path/:name" and what answers it. What the handler throws becomes a Status. */
export function route(app: FastifyInstance, line: string, handler: (exchange: Exchange) => unknown): void {
  const [method = "", url = ""] = line.split(" ");
  app.route({ method, url, handler: async (request, reply) => handler({ request, reply }) });
}

/** By raw request, as the gate found out. */
const askers = new WeakMap<object, By>();
export const setAsker = (raw: object, by: By): void => void askers.set(raw, by);
/** Nobody, for the one path that answers anybody. */
export const askerOf = (raw: object): By | undefined => askers.get(raw);

/** Who asks, and through which door. */
export function byOf(raw: object): By {
  const by = askers.get(raw);
  if (by === undefined) throw new BeigeError("denied", "nobody asks");
  return by;
}

export const queryOf = (request: FastifyRequest): Unknowns => (request.query ?? {}) as Unknowns;
export const paramsOf = (request: FastifyRequest): Readonly<Record<string, string | undefined>> =>
  (request.params ?? {}) as Readonly<Record<string, string | undefined>>;
export const bodyOf = (request: FastifyRequest): Unknowns => record(request.body, "the request body");

const ids = new WeakMap<object, string>();
const REQUEST_ID = /^[\w.-]{1,64}$/;

/** Of a raw request, the same whenever it is asked: the client's own where it is one, to be found again in the records. */
export function requestIdOf(raw: { readonly headers: IncomingHttpHeaders }): string {
  let id = ids.get(raw);
  if (id === undefined) {
    const given = raw.headers["x-request-id"];
    id = typeof given === "string" && REQUEST_ID.test(given) ? given : randomUUID();
    ids.set(raw, id);
  }
  return id;
}

/** Aborted when the client leaves before the end of the answer, or when `stop` aborts. Call `done` when the answer is there. */
export function leaving(reply: FastifyReply, stop: AbortSignal): { readonly signal: AbortSignal; done(): void } {
  const controller = new AbortController();
  const left = (): void => {
    if (!reply.raw.writableFinished) controller.abort(new DOMException("the client has left", "AbortError"));
  };
  const stopped = (): void => controller.abort(stop.reason);
  if (stop.aborted) stopped();
  reply.raw.once("close", left);
  stop.addEventListener("abort", stopped, { once: true });
  return {
    signal: controller.signal,
    done() {
      // Who was cut has left too, though nobody has been told yet.
      if (reply.raw.destroyed) left();
      reply.raw.off("close", left);
      stop.removeEventListener("abort", stopped);
    },
  };
}
