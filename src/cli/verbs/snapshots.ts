// beige snapshot: copies of an agent's workspace made, listed, compared, put back, deleted.
import type { SnapshotDiff, SnapshotView } from "../../core/snapshot.ts";
import { confirm } from "../ask.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { agentName } from "../names.ts";
import { clean, oneLine } from "../output.ts";
import { count } from "../render/plan.ts";
import { drawTable } from "../render/table.ts";
import { whenText } from "../render/values.ts";

const HEADERS = ["SNAPSHOT", "MADE", "FILES", "SIZE", "COPIED", "CAUSE", "NOTE"];
const MARK = { added: "+", removed: "-", changed: "~", mode: "m" } as const;

const agentOf = (input: Input): string => agentName(input.args[0] ?? "", word(input, "namespace"));
const idOf = (input: Input): string => input.args[1] ?? "";
const pathOf = (input: Input, more = ""): string => `/api/agents/${agentOf(input)}/snapshots${more}`;
const oneOf = (input: Input, more = ""): string => pathOf(input, `/${encodeURIComponent(idOf(input))}${more}`);
const json = (input: Input): boolean => word(input, "output") === "json";
const put = (context: Context, value: unknown): Promise<unknown> => context.out.write(`${JSON.stringify(value, null, 2)}\n`);

function size(bytes: number): string {
  const unit = bytes < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(1)} ${["", "KiB", "MiB", "GiB", "TiB"][unit] ?? ""}`;
}

export const create: Run = async (context, input) => {
  const note = word(input, "note");
  const body = note === undefined ? {} : { note };
  // It may take as long as the workspace is large.
  const made = await context.client.get<SnapshotView>({ method: "POST", path: pathOf(input), body, idleMs: 0 });
  if (json(input)) await put(context, made);
  else {
    await context.out.write(`${oneLine(made.id)}\n`);
    const skipped = made.skipped === 0 ? "" : `, ${made.skipped} sockets and pipes left out`;
    context.out.note(`${count(made.files, "file")}, ${size(made.bytes)}, ${size(made.copied)} of it copied${skipped}`);
  }
  return 0;
};

export const list: Run = async (context, input) => {
  const { items } = await context.client.get<{ readonly items: readonly SnapshotView[] }>({ path: pathOf(input) });
  if (json(input)) await put(context, items);
  else if (items.length === 0) context.out.note("no snapshots");
  else {
    const rows = items.map((one) => [
      oneLine(one.id),
      whenText(context.out, new Date(one.at).toISOString(), context.now()),
      String(one.files),
      size(one.bytes),
      size(one.copied),
      oneLine(one.cause),
      oneLine(one.note),
    ]);
    const drawn = drawTable(HEADERS, rows, context.out.tty ? { width: context.out.columns } : {});
    await context.out.write(`${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  }
  return 0;
};

export const diff: Run = async (context, input) => {
  const to = input.args[2];
  const query = to === undefined ? "" : `?${new URLSearchParams({ to }).toString()}`;
  const found = await context.client.get<SnapshotDiff>({ path: oneOf(input, `/diff${query}`), idleMs: 0 });
  if (json(input)) await put(context, found);
  else {
    // Names are the agent's: they may hold anything.
    const lines = found.changes.map(({ path, change }) => `${MARK[change]} ${oneLine(clean(path))}\n`);
    await context.out.write(lines.join(""));
    if (found.more > 0) context.out.note(`${found.more} more`);
  }
  return found.changes.length > 0 ? 1 : 0;
};

export const restore: Run = async (context, input) => {
  if (!on(input, "yes")) await confirm(context, `put the workspace of agent ${agentOf(input)} back to ${idOf(input)}?`, "--yes");
  const body = { stop: on(input, "stop") };
  const before = await context.client.get<SnapshotView>({ method: "POST", path: oneOf(input, "/restore"), body, idleMs: 0 });
  if (json(input)) await put(context, { restored: idOf(input), before });
  else await context.out.write(`${idOf(input)} restored; what was there is ${oneLine(before.id)}\n`);
  return 0;
};

export const remove: Run = async (context, input) => {
  if (!on(input, "yes")) await confirm(context, `delete snapshot ${idOf(input)} of agent ${agentOf(input)}?`, "--yes");
  await context.client.get({ method: "DELETE", path: oneOf(input) });
  context.out.note(`snapshot ${idOf(input)} deleted`);
  return 0;
};
