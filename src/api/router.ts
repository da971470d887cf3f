// The routes, what surrounds each of them, and how their errors are answered.
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { agentRoutes } from "./agents.ts";
import { applyRoutes } from "./apply.ts";
import { acceptBodies } from "./body.ts";
import { chatRoutes } from "./chat.ts";
import { faultAnswer } from "./compat/faults.ts";
import { compatRoutes } from "./compat/routes.ts";
import type { RouteDeps } from "./deps.ts";
import { egressRoutes } from "./egress.ts";
import { execRoutes } from "./exec.ts";
import { paramsOf } from "./exchange.ts";
import { healthRoutes } from "./health.ts";
import { inspectRoutes } from "./inspect.ts";
import { keyRoutes } from "./keys.ts";
import { kubeRoutes } from "./kube/routes.ts";
import { promptRoutes } from "./prompt.ts";
import { providerRoutes } from "./providers.ts";
import { swallow } from "./refuse.ts";
import { resourceRoutes } from "./resources.ts";
import { sandboxRoutes } from "./sandbox.ts";
import { sessionRoutes } from "./sessions.ts";
import { snapshotRoutes } from "./snapshots.ts";
import { failure, isInternal, Refusal, retryAfterSeconds } from "./status.ts";
import { usageRoutes } from "./usage.ts";

export function router(deps: RouteDeps): FastifyInstance {
  const app = fastify({
    logger: false,
    bodyLimit: deps.limits.bodyBytes,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: 253 },
    frameworkErrors: (error, request, reply) => void onError(deps, error, request, reply),
  });
  app.addHook("onSend", async (_, reply) => {
    reply.header("cache-control", "no-store").header("x-content-type-options", "nosniff");
    if (deps.closing.aborted) reply.header("connection", "close");
    // A client that does not read its answer does not keep it in our memory for ever.
    reply.raw.setTimeout(deps.limits.stallMs);
  });
  app.setErrorHandler((error, request, reply) => onError(deps, error, request, reply));
  app.setNotFoundHandler((request, reply) => onError(deps, noRoute(request), request, reply));
  acceptBodies(app, deps.limits);
  healthRoutes(app, deps);
  for (const add of [
    kubeRoutes,
    resourceRoutes,
    applyRoutes,
    inspectRoutes,
    usageRoutes,
    providerRoutes,
    agentRoutes,
    execRoutes,
    egressRoutes,
    sandboxRoutes,
    snapshotRoutes,
    promptRoutes,
    keyRoutes,
    sessionRoutes,
    chatRoutes,
    compatRoutes,
  ])
    add(app, deps);
  return app;
}

const pathOf = (request: FastifyRequest): string => request.url.split("?", 1)[0] ?? "";
const noRoute = (request: FastifyRequest): Refusal =>
  new Refusal(404, "NotFound", `there is no ${request.method} ${JSON.stringify(pathOf(request))}`);

function nameIn(body: unknown): string | undefined {
  const { metadata } = (body ?? {}) as { readonly metadata?: { readonly name?: unknown } | null };
  return typeof metadata?.name === "string" ? metadata.name.slice(0, 63) : undefined;
}

async function onError(deps: RouteDeps, error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  if (isInternal(error))
    deps.log.error("request failed", {
      method: request.method,
      path: pathOf(request),
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  const fault = faultAnswer(request.url, error);
  if (fault !== undefined) {
    await swallow(request.raw, deps.clock);
    return reply.code(fault.http).headers(fault.headers).send(fault.body);
  }
  const { plural, name } = paramsOf(request);
  const creating = request.method === "POST" && plural !== undefined;
  const reading = request.method === "GET";
  const object = name ?? (creating ? nameIn(request.body) : undefined);
  const status = failure(error, {
    ...(plural !== undefined && { plural }),
    ...(object !== undefined && { name: object }),
    creating,
    reading,
  });
  if (status.error?.retryAfterMs !== undefined) reply.header("retry-after", String(retryAfterSeconds(status.error.retryAfterMs)));
  await swallow(request.raw, deps.clock);
  return reply.code(status.code).type("application/json").send(status);
}
