// Snapshots of an agent's workspace: made, listed, compared, put back, deleted.
import type { FastifyInstance } from "fastify";
import type { AgentId } from "../core/call.ts";
import type { SnapshotDesk } from "../core/snapshot.ts";
import { agentNamed } from "./agents.ts";
import type { RouteDeps } from "./deps.ts";
import { bodyOf, byOf, leaving, paramsOf, queryOf, route, type Exchange } from "./exchange.ts";
import { optionalText } from "./fields.ts";
import { Refusal } from "./status.ts";

const ID_MAX = 64;
const NOTE_MAX = 500;

interface Asked {
  readonly desk: SnapshotDesk;
  readonly agent: AgentId;
  readonly id: string;
  readonly signal: AbortSignal;
}

export function snapshotRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const at = (line: string, answer: (asked: Asked, exchange: Exchange) => Promise<unknown>): void =>
    route(app, line, async (exchange) => {
      const { request, reply } = exchange;
      const { name, id = "" } = paramsOf(request);
      const agent = agentNamed(deps, byOf(request.raw).principal, name);
      if (deps.snapshots === undefined) throw new Refusal(404, "NotFound", "this gateway keeps no snapshots");
      const left = leaving(reply, deps.stopped);
      try {
        return await answer({ desk: deps.snapshots, agent, id, signal: left.signal }, exchange);
      } finally {
        left.done();
      }
    });
  at("GET /api/agents/:name/snapshots", async ({ desk, agent }) => ({ items: await desk.list(agent) }));
  at("POST /api/agents/:name/snapshots", ({ desk, agent, signal }, { request }) => {
    const note = optionalText(bodyOf(request), "note", NOTE_MAX);
    return desk.create(agent, note === undefined ? {} : { note }, signal);
  });
  at("GET /api/agents/:name/snapshots/:id/diff", ({ desk, agent, id, signal }, { request }) =>
    desk.diff(agent, [id, optionalText(queryOf(request), "to", ID_MAX)], signal),
  );
  at("POST /api/agents/:name/snapshots/:id/restore", ({ desk, agent, id, signal }, { request }) =>
    desk.restore(agent, id, { end: bodyOf(request)["stop"] === true }, signal),
  );
  at("DELETE /api/agents/:name/snapshots/:id", async ({ desk, agent, id }) => {
    await desk.remove(agent, id);
    return { deleted: id };
  });
}
