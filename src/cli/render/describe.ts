// One object as a person asks about it: the verdict first, then what it is, what would change, and what happened.
import type { Described, ObjectPlan } from "../../core/control.ts";
import { parseEntry, targetText } from "../../core/egress.ts";
import { condition, nsName, type Agent, type Resource } from "../../core/resource.ts";
import { age } from "../../core/age.ts";
import { clean, oneLine, type Output } from "../output.ts";
import { ownersOf } from "../owners.ts";
import { heldFields, VERB_TEXT } from "./plan.ts";
import { budgetText } from "./spend.ts";
import { ascii, valueText, whenText } from "./values.ts";

const LABEL = 12;
const line = (label: string, text: string): string => `${label.padEnd(LABEL)} ${text}`.trimEnd();
const bold = (out: Output, label: string, text: string): string =>
  `${out.paint("bold", label)}${" ".repeat(Math.max(1, LABEL + 1 - label.length))}${text}`;

function verdict(out: Output, object: Resource): string {
  if (object.metadata.deletionTimestamp !== undefined) return out.paint("yellow", "BEING DELETED");
  if (condition(object, "Suspended")?.status === "True") return out.paint("yellow", "SUSPENDED");
  const ready = condition(object, "Ready");
  if (ready === undefined) return out.paint("yellow", "NOT LOOKED AT YET");
  if (ready.status === "True") return out.paint("green", "READY");
  const word = ready.status === "Unknown" ? "UNKNOWN" : "NOT READY";
  return `${out.paint(ready.status === "Unknown" ? "yellow" : "red", word)}   ${oneLine(ready.reason)}`;
}

/** Why it is not Ready; nothing where the verdict is another. */
function why(object: Resource): string[] {
  const ready = condition(object, "Ready");
  if (object.metadata.deletionTimestamp !== undefined || ready === undefined || ready.status === "True" || ready.message === "") return [];
  return [line("Why", oneLine(ready.message))];
}

/** Leaves of a spec or of what was observed, dotted; empty lists and objects are left out. */
export function leaves(value: unknown, path = ""): (readonly [string, string])[] {
  if (value === undefined || value === null) return [];
  if (typeof value === "object" && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, child]) => leaves(child, path === "" ? key : `${path}.${key}`));
  }
  if (Array.isArray(value)) {
    if (value.length === 0) return [];
    if (value.every((item) => typeof item !== "object" || item === null))
      return [[path, valueText(value.map((item) => oneLine(String(item))).join(" "))]];
    return value.flatMap((item, i) => leaves(item, `${path}[${i}]`));
  }
  // A time, in the one way that a file of JSON holds it.
  if (typeof value === "number" && value >= 0 && value <= 8.64e15 && /(?:^|\.)atMs$/.test(path))
    return [[path.slice(0, -2), new Date(value).toISOString()]];
  if (typeof value === "string" && value.includes("\n")) {
    const lines = value.trimEnd().split("\n");
    return [[path, `${valueText(lines[0], 60)}  (${lines.length} ${lines.length === 1 ? "line" : "lines"})`]];
  }
  return [[path, valueText(value)]];
}

function section(out: Output, title: string, rows: readonly (readonly [string, string])[]): string[] {
  if (rows.length === 0) return [];
  const width = Math.min(40, Math.max(...rows.map(([name]) => name.length)));
  return [out.paint("bold", title), ...rows.map(([name, text]) => `  ${oneLine(name).padEnd(width)}  ${text}`)];
}

function conditions(out: Output, object: Resource): string[] {
  const all = object.status?.conditions ?? [];
  if (all.length === 0) return [];
  // Ready's message is in the verdict; what is not the good state says why.
  const told = ({ type, status, message }: (typeof all)[number]): boolean =>
    type !== "Ready" && message !== "" && (status === "True") === (type !== "Hardened");
  const word = ({ type, status }: (typeof all)[number]): string => `${type}=${status}`;
  const long = all.filter(told).map((each) => line("", `${word(each)}   ${oneLine(each.message)}`));
  const short = all.filter((each) => !told(each)).map(word);
  return [bold(out, "Conditions", short.join("   ")), ...long];
}

function planned(plan: ObjectPlan, told: string | undefined): string[] {
  if (plan.verb === "unchanged") return plan.message && plan.message !== told ? [line("Waiting", oneLine(plan.message))] : [];
  const fields = [...plan.fields, ...plan.drift, ...heldFields(plan)].map((field) => oneLine(field.path)).slice(0, 8);
  const about = fields.length > 0 ? `: ${fields.join(", ")}` : "";
  // Drift that is only told: nothing is done about it.
  if (plan.verb === "update" && plan.fields.length + plan.actions.length === 0) return [line("Drifted", `left as it is${about}`)];
  const why = plan.why.length === 0 ? "" : ` (${plan.why.join(", ")})`;
  return [
    line("To do", `${VERB_TEXT[plan.verb]}${why}${about}`),
    ...(plan.held === undefined ? [] : [line("", oneLine(plan.held.until))]),
    ...plan.actions.map((each) => line("", oneLine(each))),
  ];
}

/** Where an agent's sandbox may go. */
function reach({ object }: Described): string[] {
  const network = (object as Partial<Agent>).spec?.sandbox?.network;
  if (object.kind !== "Agent" || network?.mode !== "allowlist") return [];
  const rules = (network.allow ?? []).flatMap((entry) => {
    const rule = parseEntry(entry);
    if (typeof rule === "string") return [];
    const more = [...(rule.private ? ["private"] : []), ...(rule.injection === undefined ? [] : [`secret ${rule.injection.secret}`])];
    const named = rule.ports.map((port) => `${rule.wild ? "*." : ""}${targetText({ host: rule.host, port })}`);
    return `${named.join(", ")}${more.length === 0 ? "" : ` (${more.join(", ")})`}`;
  });
  return [line("Network", rules.length === 0 ? "allowlist: nothing" : oneLine(`allowlist: ${rules.join(", ")}`))];
}

const EVENTS_SHOWN = 15;
const REVISIONS_SHOWN = 5;

/** What the gateway said, and what its sources are at. */
export interface DescribedOwned extends Described {
  readonly sources?: ReadonlyMap<string, string>;
}

function owned({ object, sources }: DescribedOwned): string[] {
  const owners = ownersOf(object).map(({ name, source }) => {
    const revision = source === undefined ? undefined : sources?.get(source);
    return oneLine(revision === undefined ? name : `${name} ${revision}`);
  });
  return owners.length === 0 ? [] : [line("Owned by", owners.join(", "))];
}

export function renderDescribe(out: Output, described: DescribedOwned, now: number): string {
  const { object, events, revisions } = described;
  const meta = object.metadata;
  // The wire leaves out an empty namespace, whatever the type says.
  const name = nsName(meta.namespace ?? "", meta.name);
  const seen = object.status?.observedGeneration ?? 0;
  const generation = `generation ${meta.generation}${seen === meta.generation ? "" : `, seen ${seen}`}`;
  const labels = Object.entries(meta.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const changes = revisions
    .slice(0, REVISIONS_SHOWN)
    .map((each): [string, string] => [
      `rev ${each.revision}  ${whenText(out, each.at, now)}`,
      `${each.fields.length > 0 ? oneLine(each.fields.slice(0, 6).join(", ")) : "created"}   by ${oneLine(each.manager)}`,
    ]);
  const last = events.slice(-EVENTS_SHOWN);
  const wide = Math.max(0, ...last.map((each) => whenText(out, each.last, now).length));
  const happened = last.map((each): [string, string] => [
    `${whenText(out, each.last, now).padEnd(wide)}  ${each.type}`,
    `${oneLine(each.reason)}  ${oneLine(each.message)}${each.count > 1 ? `  (${each.count} times)` : ""}`,
  ]);
  return ascii(
    out,
    [
      `${out.paint("bold", `${clean(object.kind)} ${clean(name)}`)}   ${verdict(out, object)}   ${generation}, ${age(now - Date.parse(meta.creationTimestamp))} old`,
      ...(labels.length > 0 ? [line("Labels", oneLine(labels.join(" ")))] : []),
      ...owned(described),
      ...why(object),
      ...conditions(out, object),
      ...(described.budgets ?? []).map((each, i) => line(i === 0 ? "Budget" : "", budgetText(each))),
      ...reach(described),
      ...planned(described.plan, condition(object, "Ready")?.message),
      ...section(out, "Wanted", leaves(object.spec)),
      ...section(out, "Observed", leaves(object.status?.observed)),
      ...section(out, "Changes", changes),
      ...(happened.length > 0 ? section(out, "Events", happened) : [bold(out, "Events", "none")]),
      "",
    ].join("\n"),
  );
}
