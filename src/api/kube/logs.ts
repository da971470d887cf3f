// Logs of a pod: what its agent did, one line a call, from the audit log. A sandbox has no program of its own that writes lines.
import type { AuditRow } from "../../core/audit.ts";
import { nsName } from "../../core/resource.ts";
import type { RouteDeps } from "../deps.ts";
import { paramsOf, queryOf, type Exchange } from "../exchange.ts";
import { optionalText, queryFlag, queryNumber, type Unknowns } from "../fields.ts";
import { badRequest, Refusal } from "../status.ts";
import { send } from "../stream.ts";
import { checkName } from "../target.ts";
import { CONTAINER } from "./pods.ts";

const MOST = 1000;
const POLL_MS = 1000;

export async function logs(deps: RouteDeps, exchange: Exchange): Promise<void> {
  const query = queryOf(exchange.request);
  const params = paramsOf(exchange.request);
  const [namespace, name] = [checkName(params["namespace"], "namespace"), checkName(params["name"], "name")];
  // Throws when there is no such agent.
  deps.control.get({ kind: "Agent", namespace, name });
  checkContainer(optionalText(query, "container", 64));
  if (queryFlag(query, "previous")) throw badRequest("the log has no earlier part", "leave --previous away");
  const { audit } = deps;
  if (audit === undefined)
    throw new Refusal(404, "NotFound", "this gateway does not serve its audit log", "beige audit tail reads the file");
  const wanted = {
    tail: queryNumber(query, "tailLines", { min: 0, max: MOST, absent: MOST }),
    since: since(query, deps.clock.now()),
    follow: queryFlag(query, "follow"),
  };
  const rows = (): Promise<readonly AuditRow[]> => audit.tail(MOST, { agent: nsName(namespace, name) });
  await send(deps, exchange, {
    events: (signal) => lines(deps.clock, rows, wanted, signal),
    line: (line) => line,
    broken: (error) => `the log ends here: ${error.message}`,
    type: "text/plain",
    eager: true,
    stop: deps.closing,
  });
}

export function checkContainer(container: string | undefined): void {
  if (container !== undefined && container !== "" && container !== CONTAINER)
    throw badRequest(`a pod of beige has one container, ${CONTAINER}`, `-c ${CONTAINER}, or no -c`);
}

/** Milliseconds since the epoch; 0 for no limit. */
function since(query: Unknowns, now: number): number {
  const seconds = queryNumber(query, "sinceSeconds", { min: 0, max: 1e9, absent: 0 });
  if (seconds > 0) return now - seconds * 1000;
  const time = optionalText(query, "sinceTime", 64);
  if (time === undefined || time === "") return 0;
  const at = Date.parse(time);
  if (Number.isNaN(at)) throw badRequest("sinceTime must be a time as in RFC 3339");
  return at;
}

interface Wanted {
  readonly tail: number;
  readonly since: number;
  readonly follow: boolean;
}

async function* lines(
  clock: RouteDeps["clock"],
  rows: () => Promise<readonly AuditRow[]>,
  wanted: Wanted,
  signal: AbortSignal,
): AsyncIterable<string> {
  const all = await rows();
  const first = all.filter((row) => shown(row) && Date.parse(row.ts) >= wanted.since);
  for (const row of wanted.tail === 0 ? [] : first.slice(-wanted.tail)) yield lineOf(row);
  let last = all.at(-1)?.seq ?? -1;
  while (wanted.follow && !signal.aborted) {
    await clock.sleep(POLL_MS, signal).catch(() => undefined);
    if (signal.aborted) return;
    for (const row of await rows()) {
      if (row.seq <= last) continue;
      last = row.seq;
      if (shown(row)) yield lineOf(row);
    }
  }
}

/** A call is told once, when it has ended. */
const shown = (row: AuditRow): boolean => row.phase !== "begin";

export function lineOf(row: AuditRow): string {
  const { ts, type, tool, decision, exitCode, durationMs, outcome, error, args } = row;
  const words = [
    ts,
    type,
    tool,
    decision,
    ...(exitCode === undefined ? [] : [`exit=${exitCode}`]),
    ...(outcome === undefined || outcome === "ok" || outcome === "failed" ? [] : [outcome]),
    ...(durationMs === undefined ? [] : [`${durationMs}ms`]),
    JSON.stringify(args),
    ...(error === undefined ? [] : [JSON.stringify(error)]),
  ];
  // Agents choose what stands here: nothing that moves a terminal's cursor or turns its text around gets there.
  return words.join(" ").replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, "\ufffd");
}
