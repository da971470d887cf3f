// POST /api/agents/NAME/exec: one tool call in an agent's sandbox, answered when it has ended.
import type { FastifyInstance } from "fastify";
import { isCoreTool, type CallRequest, type CallResult } from "../core/call.ts";
import { agentNamed } from "./agents.ts";
import type { RouteDeps } from "./deps.ts";
import { byOf, leaving, paramsOf, route } from "./exchange.ts";
import { only, optionalText, record, text, texts, type Unknowns } from "./fields.ts";
import { countSession, sessionOf } from "./keys.ts";
import { requestOf } from "./principal.ts";
import { badRequest } from "./status.ts";

const FIELDS = ["tool", "params", "command", "timeout", "cwd", "env", "background", "args", "stdin", "session"];
const LONG = 8 * 1024 * 1024;

export function execRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "POST /api/agents/:name/exec", async (exchange) => {
    const { request, reply } = exchange;
    const body = only(request.body, FIELDS);
    const asked = input(body);
    const named = optionalText(body, "session", 256);
    const { principal } = byOf(request.raw);
    const agent = agentNamed(deps, principal, paramsOf(request).name);
    const session = named === undefined ? undefined : sessionOf(principal, named);
    countSession(deps, principal, session);
    const leave = leaving(reply, deps.stopped);
    try {
      const call = { principal, agent, ...asked, request: requestOf(exchange), ...(session !== undefined && { session }) };
      return answer(await deps.call(call, leave.signal));
    } finally {
      leave.done();
    }
  });
}

/** {command} is short for the core tool exec; core tools take `params`, a plugin's tools take words and standard input. */
function input(body: Unknowns): Pick<CallRequest, "tool" | "input"> {
  const command = optionalText(body, "command", LONG);
  if (command !== undefined) {
    if (body.tool !== undefined || body.params !== undefined || body.args !== undefined)
      throw badRequest("give either command, or tool with params or args");
    const more = ["timeout", "cwd", "env", "stdin", "background"].map((key) => given(body, key));
    return { tool: "exec", input: { params: Object.assign({ command }, ...more) as Unknowns } };
  }
  const tool = text(body, "tool", 64);
  if (isCoreTool(tool)) return { tool, input: { params: record(body.params, "params") } };
  if (body.params !== undefined) throw badRequest(`tool ${JSON.stringify(tool)} takes args, not params`);
  const stdin = optionalText(body, "stdin", LONG);
  const cwd = optionalText(body, "cwd");
  const args = texts(body, "args", 4096);
  return {
    tool,
    input: { args, ...(stdin !== undefined && { stdin: new TextEncoder().encode(stdin) }), ...(cwd !== undefined && { cwd }) },
  };
}

const given = (body: Unknowns, key: string): Unknowns => (body[key] === undefined ? {} : { [key]: body[key] });

/** What a tool did is a value: a refused or failed call is a 200 with its exit code. */
function answer(result: CallResult): object {
  const words = new TextDecoder("utf-8").decode(result.output);
  const exact = Buffer.from(words, "utf8").equals(result.output);
  return {
    content: [{ type: "text", text: words === "" && result.error !== undefined ? result.error : words }, ...(result.images ?? [])],
    exitCode: result.exitCode,
    success: result.success,
    outcome: result.outcome,
    call: result.call,
    ...(result.error !== undefined && { error: result.error }),
    ...(result.truncated === true && { truncated: true }),
    // Present when the text is not the output byte for byte.
    ...(!exact && { outputBase64: Buffer.from(result.output).toString("base64") }),
  };
}
