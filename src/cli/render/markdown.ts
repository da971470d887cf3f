// A plan as a comment on a pull request: dangers first, details folded, the same bytes for the same plan, under GitHub's limit.
import type { ObjectPlan, StackPlan } from "../../core/control.ts";
import { SYMBOL } from "../../core/control.ts";
import { oneLine } from "../output.ts";
import { textDiff } from "./lines.ts";
import { heldFields, impactText, isEmpty, isNew } from "./plan.ts";
import { nameOf, valueText } from "./values.ts";

/** GitHub cuts a comment at 65,536 characters. */
const MAX_BYTES = 60_000;

/** Fields that widen what an agent may do: always above the fold. */
const PERMISSION = /^(spec\.)?(tools|coreTools|budget|sandbox\.(network|mounts|user)|workspace)\b/;
export const permissionFields = (plan: ObjectPlan): readonly string[] =>
  plan.ref.kind === "Agent"
    ? [...new Set(plan.fields.filter((field) => PERMISSION.test(field.path)).map((field) => oneLine(field.path)))]
    : [];

// Backticks and angle brackets in others' text must not open code or tags.
const escape = (text: string): string => oneLine(text).replace(/[&<>`|@\\*_[\]]/g, (char) => `&#${char.codePointAt(0) ?? 0};`);
const fenced = (lines: readonly string[]): string[] => {
  const longest = Math.max(2, ...lines.flatMap((line) => [...line.matchAll(/`+/g)].map((match) => match[0].length)));
  const fence = "`".repeat(longest + 1);
  return [`${fence}diff`, ...lines, fence];
};

function fieldDiff(plan: ObjectPlan): string[] {
  return [...plan.fields, ...heldFields(plan)].flatMap((field) => {
    const impact = isNew(plan) ? "" : impactText(plan, field);
    const title = `  ${oneLine(field.path)}${impact === "" ? "" : `   (${impact})`}`;
    if (typeof field.before === "string" && typeof field.after === "string" && (field.before + field.after).includes("\n")) {
      return [title, ...textDiff(field.before, field.after).lines];
    }
    const before = field.before === undefined ? [] : [`- ${valueText(field.before, 500)}`];
    const after = field.after === undefined ? [] : [`+ ${valueText(field.after, 500)}`];
    return [title, ...before, ...after];
  });
}

function block(plan: ObjectPlan): string {
  const drift = plan.drift.map((field) => `! ${oneLine(field.path)}: ${valueText(field.after)} wanted, ${valueText(field.before)} found`);
  const lines = [...fieldDiff(plan), ...drift];
  const fields = [...plan.fields, ...heldFields(plan)].map((field) => /^[^.[]+(?:\.[^.[]+)?/.exec(field.path)?.[0] ?? field.path);
  const what =
    plan.verb === "create" || plan.verb === "delete" ? `${plan.verb}d` : [...new Set(fields)].slice(0, 6).join(", ") || plan.why.join(", ");
  const title = `<code>${escape(SYMBOL[plan.verb])}</code> ${escape(nameOf(plan.ref))}: ${escape(what)}`;
  if (lines.length === 0) return `- ${title}\n`;
  return [`<details><summary>${title}</summary>`, "", ...fenced(lines), "</details>", ""].join("\n");
}

const inside = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
const items = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** What a new agent may do beyond the narrow defaults: its fields come as whole parts. */
function wideOf(plan: ObjectPlan): readonly string[] {
  if (plan.ref.kind !== "Agent") return [];
  const field = (path: string): unknown => plan.fields.find((each) => each.path === path)?.after;
  const sandbox = field("sandbox");
  const mode = inside(inside(sandbox, "network"), "mode");
  return [
    ...items(field("tools")).map((tool) => `tools[${valueText(tool)}]`),
    ...(mode === undefined || mode === "none" ? [] : [`sandbox.network.mode ${valueText(mode)}`]),
    ...items(inside(sandbox, "mounts")).map((mount) => `sandbox.mounts[${valueText(inside(mount, "target"))}]`),
    ...(inside(field("workspace"), "path") === undefined ? [] : ["workspace.path"]),
  ].map(oneLine);
}

function dangers(plan: StackPlan, offline: boolean): string[] {
  return plan.objects.flatMap((each) => {
    const name = escape(nameOf(each.ref));
    const words = (list: readonly string[]): string => `**${list.slice(0, 20).map(escape).join(", ")}${list.length > 20 ? ", ..." : ""}**`;
    if (each.verb === "delete") return [`⚠ **${name} is deleted**`];
    if (each.verb === "unchanged") return [];
    if (each.verb === "create") return wideOf(each).length === 0 ? [] : [`${name} is new and may use ${words(wideOf(each))}`];
    // Nobody counts sessions where nothing runs.
    const sessions = offline ? "" : `${each.sessions ?? 0} sessions; `;
    const replaced =
      each.verb === "replace" ? [`⚠ **${name} is replaced** (${sessions}${escape(each.forces ?? each.why.join(", "))})`] : [];
    const held = each.held === undefined ? "" : `; ${escape(each.held.until)}`;
    const later =
      each.verb === "replace-later"
        ? [`⚠ **${name} is replaced later** (${sessions}${escape(each.forces ?? each.why.join(", "))}${held})`]
        : [];
    const fields = permissionFields(each);
    return [...replaced, ...later, ...(fields.length === 0 ? [] : [`${name} changes what it may do: ${words(fields)}`])];
  });
}

export function renderMarkdown(
  plan: StackPlan,
  options: {
    readonly title: string;
    readonly against: string;
    readonly next: string;
    /** Nothing that runs was looked at. */
    readonly offline?: boolean;
  },
): string {
  const { create, update, replace, delete: gone, unchanged } = plan.summary;
  const later = plan.objects.filter((each) => each.verb === "replace-later").length;
  const parts = [
    [replace - later, "replaced"],
    [later, "replaced later"],
    [gone, "deleted"],
    [create, "created"],
    [update, "updated"],
    [unchanged, "unchanged"],
  ] as const;
  const said = parts.filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`);
  const marker = `<!-- beige-diff ${options.title.replace(/[^\w./-]/g, "_").replaceAll("--", "__")} -->`;
  const summary = isEmpty(plan) ? `no changes, ${unchanged} unchanged` : said.join(", ");
  const above = dangers(plan, options.offline === true);
  const head = [
    marker,
    `**beige**: ${summary} · against ${escape(options.against)}`,
    ...(above.length > 0 ? [`> ${above.join(" · ")}`] : []),
  ].join("\n");
  const changed = plan.objects.filter((each) => each.verb !== "unchanged").map(block);
  const foot = isEmpty(plan) ? "" : `Next: ${options.next}\n`;
  let size = Buffer.byteLength(head) + Buffer.byteLength(foot) + 200;
  const kept: string[] = [];
  for (const each of changed) {
    size += Buffer.byteLength(each) + 1;
    if (size > MAX_BYTES) break;
    kept.push(each);
  }
  const dropped = changed.length - kept.length;
  const more = dropped > 0 ? [`${dropped} more objects are not shown here: the job's output has them all.\n`] : [];
  const headCut =
    Buffer.byteLength(head) > MAX_BYTES / 2
      ? Buffer.from(head)
          .subarray(0, MAX_BYTES / 2)
          .toString()
      : head;
  return [headCut, ...kept, ...more, foot].join("\n").trimEnd() + "\n";
}
