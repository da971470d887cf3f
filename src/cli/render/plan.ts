// A plan as text: what changes, field by field, and a last line that can be grepped.
import type { ObjectPlan, StackPlan, Verb } from "../../core/control.ts";
import { SYMBOL } from "../../core/control.ts";
import type { FieldChange } from "../../core/kind.ts";
import type { Output, Paint } from "../output.ts";
import { clean, oneLine } from "../output.ts";
import { textDiff } from "./lines.ts";
import { ascii, nameOf, valueText } from "./values.ts";

export const VERB_TEXT: Readonly<Record<Verb, string>> = {
  create: "create",
  update: "update in place",
  replace: "replace",
  delete: "delete",
  adopt: "adopt",
  handover: "hand over",
  unchanged: "nothing",
};

export const VERB_PAINT: Readonly<Record<Verb, Paint>> = {
  create: "green",
  update: "yellow",
  replace: "yellow",
  delete: "red",
  adopt: "cyan",
  handover: "cyan",
  unchanged: "dim",
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value));
const isText = (value: unknown): value is string => typeof value === "string" && value.includes("\n");
const sign = (field: FieldChange): string => (field.before === undefined ? "+" : field.after === undefined ? "-" : "~");
const paintOf = (mark: string): Paint => (mark === "+" ? "green" : mark === "-" ? "red" : "yellow");

/** Width of the names of fields in one object, so that values stand below each other. */
const fieldWidth = (fields: readonly FieldChange[]): number => Math.min(32, Math.max(18, ...fields.map((field) => field.path.length)));

function longText(out: Output, field: FieldChange, width: number): string[] {
  const { changed, lines } = textDiff(clean(textOf(field.before)), clean(textOf(field.after)));
  const total = textOf(field.after ?? field.before).split("\n").length;
  return [
    `  ${out.paint(paintOf(sign(field)), sign(field))} ${oneLine(field.path).padEnd(width)}  ${changed} line${changed === 1 ? "" : "s"} of ${total}`,
    ...lines.map(
      (line) =>
        `      ${line.startsWith("+") ? out.paint("green", line) : line.startsWith("-") ? out.paint("red", line) : out.paint("dim", line)}`,
    ),
  ];
}

function fieldLines(out: Output, field: FieldChange, width: number): string[] {
  if (field.before !== undefined && (isText(field.before) || isText(field.after))) return longText(out, field, width);
  const mark = sign(field);
  const path = oneLine(field.path).padEnd(width);
  const secret = field.before === "[secret]" && field.after === "[secret]";
  const value = secret
    ? "[secret, changed]"
    : mark === "+"
      ? valueText(field.after)
      : mark === "-"
        ? valueText(field.before)
        : `${valueText(field.before)} → ${valueText(field.after)}`;
  const forces = field.forces === true ? out.paint("yellow", "   forces replacement") : "";
  return [`  ${out.paint(paintOf(mark), mark)} ${path}  ${value}${forces}`.trimEnd()];
}

const sessionsText = (plan: ObjectPlan): string =>
  plan.sessions === undefined || plan.sessions === 0 ? "" : `${plan.sessions} session${plan.sessions === 1 ? "" : "s"} open, kept`;

/** An object that was not there: also one that takes over what runs without it. */
export const isNew = (plan: ObjectPlan): boolean => plan.verb === "create" || plan.verb === "adopt";

function objectLines(out: Output, plan: ObjectPlan): string[] {
  const why = plan.why.filter((each) => each !== "spec" && !(plan.verb === "create" && each === "missing"));
  const notes = [why.join(", "), sessionsText(plan)].filter(Boolean).join(", ");
  const verb = `${SYMBOL[plan.verb]} ${VERB_TEXT[plan.verb]}`;
  const head = `${out.paint("bold", nameOf(plan.ref).padEnd(44))} ${out.paint(VERB_PAINT[plan.verb], verb.padEnd(20))} ${notes}`.trimEnd();
  const lines = [head];
  // A new object's fields are the manifest itself: named, not repeated.
  if (!isNew(plan) && plan.verb !== "delete") {
    const width = fieldWidth(plan.fields);
    for (const field of plan.fields) lines.push(...fieldLines(out, field.path === plan.forces ? { ...field, forces: true } : field, width));
  }
  for (const field of plan.drift) {
    lines.push(
      `  ${out.paint("red", "!")} ${oneLine(field.path)} ${valueText(field.after)} wanted, ${valueText(field.before)} found   heals`,
    );
  }
  if (plan.verb !== "unchanged") for (const action of plan.actions) lines.push(out.paint("dim", `    ${oneLine(action)}`));
  if (plan.message) lines.push(`  ${out.paint("yellow", "!")} ${oneLine(plan.message)}`);
  return lines;
}

/** Whether anything would be done. */
export const isEmpty = (plan: StackPlan): boolean => plan.objects.every((each) => each.verb === "unchanged");

export const planLine = (plan: StackPlan): string => {
  const { create, update, replace, delete: gone } = plan.summary;
  const adopted = plan.objects.filter((each) => each.verb === "adopt").length;
  const more = adopted === 0 ? "" : ` ${adopted} of those to create ${adopted === 1 ? "takes" : "take"} over what is there.`;
  return `Plan: ${create} to create, ${update} to update, ${replace} to replace, ${gone} to delete.${more}`;
};

export const count = (n: number, word: string): string => `${n} ${word}${n === 1 ? "" : "s"}`;

function leftLines(plan: StackPlan): string[] {
  if (plan.left.length === 0) return [];
  const names = plan.left.slice(0, 5).map(nameOf).join(" ");
  const more = plan.left.length > 5 ? ` and ${plan.left.length - 5} more` : "";
  return [`No longer in the manifests, kept: ${names}${more}   (--prune deletes)`];
}

export function renderPlan(out: Output, plan: StackPlan): string {
  const waiting = plan.objects
    .filter((each) => each.verb === "unchanged" && each.message)
    .map((each) => `${nameOf(each.ref)}: ${oneLine(each.message ?? "")}`);
  if (isEmpty(plan)) {
    const same = `No changes: ${count(plan.objects.length, "object")} match${plan.objects.length === 1 ? "es" : ""} what is running.`;
    return ascii(out, [...leftLines(plan), ...waiting, same, ""].join("\n"));
  }
  const shown = plan.objects.filter((each) => each.verb !== "unchanged");
  const rare = [...new Set(shown.map((each) => each.verb))].filter((verb) => verb === "replace" || verb === "adopt" || verb === "handover");
  const legend =
    rare.length > 0
      ? [out.paint("dim", ["+ create", "~ update", "- delete", ...rare.map((verb) => `${SYMBOL[verb]} ${VERB_TEXT[verb]}`)].join("   "))]
      : [];
  const unchanged = plan.summary.unchanged > 0 ? [out.paint("dim", `${plan.summary.unchanged} unchanged`)] : [];
  return ascii(
    out,
    [...legend, ...shown.flatMap((each) => objectLines(out, each)), ...unchanged, ...waiting, ...leftLines(plan), planLine(plan), ""].join(
      "\n",
    ),
  );
}
