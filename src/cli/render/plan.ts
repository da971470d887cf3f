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
  "replace-later": "replace, later",
  delete: "delete",
  adopt: "adopt",
  handover: "hand over",
  unchanged: "nothing",
};

export const VERB_PAINT: Readonly<Record<Verb, Paint>> = {
  create: "green",
  update: "yellow",
  replace: "yellow",
  "replace-later": "yellow",
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

/** What a change of the field does to what runs; empty where nobody has said. */
export function impactText(plan: ObjectPlan, field: FieldChange): string {
  if (field.forces === true || field.impact === "replace" || field.path === plan.forces)
    return plan.verb === "replace-later" ? "forces replacement, held back" : "forces replacement";
  return field.impact === undefined ? "" : field.impact === "update" ? "in place" : field.impact;
}

/** What a replacement is about that waits, as far as the changes of the spec do not show it. */
export function heldFields(plan: ObjectPlan): readonly FieldChange[] {
  const shown = new Set([...plan.fields, ...plan.drift].map((field) => field.path));
  return (plan.held?.fields ?? []).filter((field) => !shown.has(field.path));
}

function impactMark(out: Output, plan: ObjectPlan, field: FieldChange): string {
  const text = impactText(plan, field);
  return text === "" ? "" : `   ${out.paint(text.startsWith("forces") ? "yellow" : "dim", text)}`;
}

interface Shown {
  readonly field: FieldChange;
  readonly width: number;
  /** What it does to what runs. */
  readonly impact: string;
}

function longText(out: Output, { field, width, impact }: Shown): string[] {
  const { changed, lines } = textDiff(clean(textOf(field.before)), clean(textOf(field.after)));
  const total = textOf(field.after ?? field.before).split("\n").length;
  return [
    `  ${out.paint(paintOf(sign(field)), sign(field))} ${oneLine(field.path).padEnd(width)}  ${changed} line${changed === 1 ? "" : "s"} of ${total}${impact}`,
    ...lines.map(
      (line) =>
        `      ${line.startsWith("+") ? out.paint("green", line) : line.startsWith("-") ? out.paint("red", line) : out.paint("dim", line)}`,
    ),
  ];
}

function fieldLines(out: Output, shown: Shown): string[] {
  const { field, width, impact } = shown;
  if (field.before !== undefined && (isText(field.before) || isText(field.after))) return longText(out, shown);
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
  return [`  ${out.paint(paintOf(mark), mark)} ${path}  ${value}${impact}`.trimEnd()];
}

const sessionsText = (plan: ObjectPlan): string =>
  plan.sessions === undefined || plan.sessions === 0 ? "" : `${plan.sessions} session${plan.sessions === 1 ? "" : "s"} open, kept`;

/** An object that was not there: also one that takes over what runs without it. */
export const isNew = (plan: ObjectPlan): boolean => plan.verb === "create" || plan.verb === "adopt";

function objectLines(out: Output, plan: ObjectPlan): string[] {
  const why = plan.why.filter((each) => each !== "spec" && !(plan.verb === "create" && each === "missing"));
  const notes = [why.join(", "), sessionsText(plan), oneLine(plan.held?.until ?? "")].filter(Boolean).join(", ");
  const verb = `${SYMBOL[plan.verb]} ${VERB_TEXT[plan.verb]}`;
  const head =
    `${out.paint("bold", nameOf(plan.ref).padEnd(44))} ${out.paint(VERB_PAINT[plan.verb], verb.padEnd(20))}${verb.length < 20 ? " " : "   "}${notes}`.trimEnd();
  const lines = [head];
  // A new object's fields are the manifest itself: named, not repeated.
  if (!isNew(plan) && plan.verb !== "delete") {
    const fields = [...plan.fields, ...heldFields(plan)];
    const width = fieldWidth(fields);
    for (const field of fields) lines.push(...fieldLines(out, { field, width, impact: impactMark(out, plan, field) }));
  }
  const then = plan.held === undefined ? (plan.actions.length === 0 ? "stays" : "heals") : "held back";
  for (const field of plan.drift) {
    lines.push(
      `  ${out.paint("red", "!")} ${oneLine(field.path)} ${valueText(field.after)} wanted, ${valueText(field.before)} found   ${then}`,
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
  const later = plan.objects.filter((each) => each.verb === "replace-later").length;
  const more = [
    ...(adopted === 0 ? [] : [` ${adopted} of those to create ${adopted === 1 ? "takes" : "take"} over what is there.`]),
    ...(later === 0 ? [] : [` ${later} of those to replace ${later === 1 ? "is" : "are"} held back.`]),
  ].join("");
  return `Plan: ${create} to create, ${update} to update, ${replace} to replace, ${gone} to delete.${more}`;
};

export const count = (n: number, word: string): string => `${n} ${word}${n === 1 ? "" : "s"}`;

/** The first of those that are kept, and how many more. */
export const leftText = (left: StackPlan["left"]): string =>
  `${left.slice(0, 5).map(nameOf).join(" ")}${left.length > 5 ? ` and ${left.length - 5} more` : ""}`;

function leftLines({ left }: StackPlan): string[] {
  return left.length === 0 ? [] : [`No longer in the manifests, kept: ${leftText(left)}   (--prune deletes)`];
}

/** Their symbols explain themselves to nobody. */
const RARE: ReadonlySet<Verb> = new Set(["replace", "replace-later", "adopt", "handover"]);

export function renderPlan(out: Output, plan: StackPlan): string {
  const waiting = plan.objects
    .filter((each) => each.verb === "unchanged" && each.message)
    .map((each) => `${nameOf(each.ref)}: ${oneLine(each.message ?? "")}`);
  if (isEmpty(plan)) {
    const same = `No changes: ${count(plan.objects.length, "object")} match${plan.objects.length === 1 ? "es" : ""} what is running.`;
    return ascii(out, [...leftLines(plan), ...waiting, same, ""].join("\n"));
  }
  const shown = plan.objects.filter((each) => each.verb !== "unchanged");
  const rare = [...new Set(shown.map((each) => each.verb))].filter((verb) => RARE.has(verb));
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
