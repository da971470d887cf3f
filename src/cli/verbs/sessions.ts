// beige sessions and beige session: an agent's conversations seen, searched, exported, set, steered, ended and deleted.
import { BeigeError } from "../../core/errors.ts";
import type { SessionHit, SessionLine, SessionView } from "../../core/session.ts";
import { confirm } from "../ask.ts";
import { positive } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { agentName } from "../names.ts";
import { clean, oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { whenText } from "../render/values.ts";

const HEADERS = ["AGENT", "SESSION", "USED", "MODEL", "STATE", "TITLE"];
const USUAL = "cli:default";

const agentOf = (input: Input): string => agentName(input.args[0] ?? "", word(input, "namespace"));
const keyOf = (input: Input): string => input.args[1] ?? USUAL;
const pathOf = (input: Input, more = ""): string => `/api/agents/${agentOf(input)}/sessions/${encodeURIComponent(keyOf(input))}${more}`;
const iso = (ms: number): string => new Date(ms).toISOString();
const json = (input: Input): boolean => word(input, "output") === "json";
const put = (context: Context, value: unknown): Promise<unknown> => context.out.write(`${JSON.stringify(value, null, 2)}\n`);

async function agentsOf(context: Context, input: Input): Promise<readonly string[]> {
  if (input.args.length > 0) return [agentOf(input)];
  const found = await context.client.get<readonly { readonly name: string }[]>({ path: "/api/agents" });
  return found.map((agent) => agent.name);
}

type Row = SessionView & { readonly agent: string };

const stateOf = (row: SessionView): string => (row.running ? (row.waiting > 0 ? `running, ${row.waiting} wait` : "running") : "idle");

const cells = (context: Context, row: Row): readonly string[] => [
  oneLine(row.agent),
  oneLine(row.session),
  whenText(context.out, iso(row.updatedAt), context.now()),
  oneLine(`${row.settings.model.provider}/${row.settings.model.id}`),
  stateOf(row),
  oneLine(row.title ?? ""),
];

export const list: Run = async (context, input) => {
  const rows: Row[] = [];
  for (const agent of await agentsOf(context, input)) {
    const { sessions } = await context.client.get<{ readonly sessions: readonly SessionView[] }>({ path: `/api/agents/${agent}/sessions` });
    rows.push(...sessions.map((session) => ({ agent, ...session })));
  }
  if (json(input)) await put(context, rows);
  else if (rows.length === 0) context.out.note("no sessions");
  else {
    const drawn = drawTable(
      HEADERS,
      rows.map((row) => cells(context, row)),
      context.out.tty ? { width: context.out.columns } : {},
    );
    await context.out.write(`${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  }
  return 0;
};

const headOf = (line: SessionLine): string => {
  const about = line.model ?? line.tool;
  return `${line.role}${about === undefined ? "" : ` ${oneLine(about)}`}${line.failed === true ? " failed" : ""}`;
};

export const show: Run = async (context, input) => {
  const shown = await context.client.get<{ readonly session: SessionView; readonly lines: readonly SessionLine[] }>({
    path: pathOf(input),
  });
  if (json(input)) return (void (await put(context, shown)), 0);
  const { out } = context;
  const last = positive(word(input, "lines") ?? "100", "--lines", 1_000_000);
  const lines = shown.lines.slice(-last);
  if (lines.length < shown.lines.length) out.note(`${shown.lines.length - lines.length} earlier lines are left out: --lines N`);
  for (const line of lines) {
    const when = whenText(out, line.at, context.now());
    await out.write(`${out.paint("dim", `${headOf(line)} ${when}`)}\n${clean(line.text)}\n\n`);
  }
  return 0;
};

export const exported: Run = async (context, input) => {
  const format = word(input, "output") ?? "jsonl";
  const answer = await context.client.ask({ path: pathOf(input, `/export?format=${format}`), accept: "*/*" });
  if (answer.status !== 200) {
    answer.close();
    // The same question in the form whose errors are read.
    await context.client.get({ path: pathOf(input) });
    throw new BeigeError("unavailable", `the gateway answered ${answer.status}`, { hint: "beige gateway logs" });
  }
  await context.out.write(await answer.text());
  return 0;
};

export const remove: Run = async (context, input) => {
  if (!on(input, "yes")) await confirm(context, `delete session ${keyOf(input)} of agent ${agentOf(input)} and its file?`, "--yes");
  await context.client.get({ method: "DELETE", path: pathOf(input) });
  context.out.note(`session ${keyOf(input)} deleted`);
  return 0;
};

export const search: Run = async (context, input) => {
  const text = input.args.slice(1).join(" ");
  const limit = positive(word(input, "limit") ?? "50", "--limit", 200);
  const path = `/api/agents/${agentOf(input)}/search?q=${encodeURIComponent(text)}&limit=${limit}`;
  const found = await context.client.get<{ readonly hits: readonly SessionHit[]; readonly whole: boolean }>({ path });
  if (json(input)) return (void (await put(context, found)), found.hits.length > 0 ? 0 : 1);
  const { out } = context;
  for (const hit of found.hits)
    await out.write(
      `${oneLine(hit.session)}  ${out.paint("dim", `${whenText(out, hit.at, context.now())} ${hit.role}`)}  ${oneLine(hit.excerpt)}\n`,
    );
  if (found.hits.length === 0) out.note("nothing found");
  if (!found.whole) out.note("there may be more: the search has bounds");
  return found.hits.length > 0 ? 0 : 1;
};

function patchOf(input: Input): Readonly<Record<string, unknown>> {
  const [model, thinking, verbose] = ["model", "thinking", "verbose"].map((name) => word(input, name));
  const patch = {
    ...(model !== undefined && { model: model === "default" ? null : model }),
    ...(thinking !== undefined && { thinking: thinking === "default" ? null : thinking }),
    ...(verbose !== undefined && { verbose: verbose === "default" ? null : verbose === "on" }),
  };
  if (Object.keys(patch).length > 0) return patch;
  throw new BeigeError("invalid", "nothing to set", { hint: "--model PROVIDER/MODEL, --thinking LEVEL or --verbose on|off" });
}

export const set: Run = async (context, input) => {
  const view = await context.client.get<SessionView>({
    method: "PATCH",
    path: pathOf(input),
    body: patchOf(input),
    type: "application/json",
  });
  if (json(input)) return (void (await put(context, view)), 0);
  const { model, thinking, verbose } = view.settings;
  await context.out.write(`model ${oneLine(`${model.provider}/${model.id}`)}, thinking ${thinking}, verbose ${verbose ? "on" : "off"}\n`);
  return 0;
};

export const steer: Run = async (context, input) => {
  const text = input.args.slice(2).join(" ");
  await context.client.get({ method: "POST", path: pathOf(input, on(input, "follow-up") ? "/follow-up" : "/steer"), body: { text } });
  context.out.note(on(input, "follow-up") ? "said at the end of the turn" : "said after the tools that run now");
  return 0;
};

export const abort: Run = async (context, input) => {
  const { ended } = await context.client.get<{ readonly ended: number }>({ method: "POST", path: pathOf(input, "/abort"), body: {} });
  context.out.note(ended === 0 ? "nothing runs" : `${ended} ended`);
  return 0;
};
