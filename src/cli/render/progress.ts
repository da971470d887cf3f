// The progress of an apply: a block that is repainted in place on a terminal, one line an object elsewhere.
import type { ApplyEvent, StackPlan, Verb } from "../../core/control.ts";
import { refKey } from "../../core/resource.ts";
import { took } from "../../core/age.ts";
import { oneLine, type Output } from "../output.ts";
import { ascii, fit, nameOf, secondsText } from "./values.ts";

export type ProgressEvent = Extract<ApplyEvent, { readonly type: "progress" }>;

export interface Progress {
  plan(plan: StackPlan): void;
  event(event: ProgressEvent): Promise<void>;
  /** Leaves the last state on the screen and ends the repainting. */
  stop(): void;
}

const DONE: Readonly<Record<Verb, string>> = {
  create: "created",
  update: "configured",
  replace: "replaced",
  "replace-later": "configured",
  delete: "deleted",
  adopt: "adopted",
  handover: "handed over",
  unchanged: "unchanged",
};
export const doneWord = (verb: Verb): string => DONE[verb];

const isOver = (event: ProgressEvent): boolean => event.state === "ready" || event.state === "failed" || event.state === "gone";

/** `agent/travel configured (2 sessions kept)`; a failure says what it left. */
export function plainLine(event: ProgressEvent): string {
  const about = oneLine(event.message);
  if (event.state === "failed") return `${nameOf(event.ref)} failed: ${[event.reason, about].filter(Boolean).join(": ")}`;
  return `${nameOf(event.ref)} ${DONE[event.verb]}${about === "" ? "" : ` (${about})`}`;
}

/** Lines for pipes and logs: each object once, when it is over; what was unchanged and is well is only counted. */
export function plainProgress(out: Output): Progress {
  const said = new Set<string>();
  return {
    plan: () => undefined,
    async event(event) {
      const key = refKey(event.ref);
      if (!isOver(event) || said.has(key)) return;
      said.add(key);
      if (event.verb !== "unchanged" || event.state === "failed") await out.write(`${plainLine(event)}\n`);
    },
    stop: () => undefined,
  };
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const PAINT_MS = 100;
const ROWS_MAX = 20;

interface Row {
  readonly event: ProgressEvent;
  /** Monotonic time of its first event, to let the clock run between events. */
  readonly since: number;
}

function rowText(out: Output, row: Row, now: number, frame: number): string {
  const { event } = row;
  const name = nameOf(event.ref).padEnd(24);
  const ms = isOver(event) ? event.elapsedMs : Math.max(event.elapsedMs, now - row.since);
  const why = [event.reason, oneLine(event.message)].filter(Boolean).join(": ");
  const spin = out.unicode ? (FRAMES[frame % FRAMES.length] ?? "") : "*";
  const [mark, what, paint] =
    event.state === "failed"
      ? (["✖", `failed: ${why}`, "red"] as const)
      : isOver(event)
        ? (["✔", `${DONE[event.verb]}${event.message === "" ? "" : `   ${oneLine(event.message)}`}`, "green"] as const)
        : ([event.state === "waiting" ? "·" : spin, why === "" ? event.state : why, "yellow"] as const);
  const text = fit(`${name} ${what}`, out.columns - 14).padEnd(Math.min(60, out.columns - 14));
  return ` ${out.paint(paint, mark)} ${text} ${took(ms)}`;
}

/** `now` is monotonic, in milliseconds. */
export function liveProgress(out: Output, now: () => number): Progress {
  const rows = new Map<string, Row>();
  const started = now();
  let total = 0;
  let painted = 0;
  let frame = 0;
  let dirty = false;
  let over = false;

  const paint = (last: boolean): void => {
    const all = [...rows.values()];
    const done = all.filter((row) => isOver(row.event));
    const order = [...all.filter((row) => !isOver(row.event)), ...done.toReversed()];
    const shown = last ? all : order.slice(0, ROWS_MAX);
    const hidden = all.length - shown.length;
    const head = `[+] ${done.length}/${Math.max(total, all.length)}  ${secondsText(now() - started)}${last ? "" : "      Ctrl-C leaves it running"}`;
    const lines = [
      head,
      ...all.filter((row) => shown.includes(row)).map((row) => rowText(out, row, now(), frame)),
      ...(hidden > 0 ? [` … ${hidden} more`] : []),
    ];
    const up = painted > 0 ? `\u001B[${painted}A\u001B[0J` : "";
    out.raw(ascii(out, `${up}${lines.join("\n")}\n`));
    painted = lines.length;
    frame += 1;
    dirty = false;
  };
  const timer = setInterval(() => {
    if (dirty || [...rows.values()].some((row) => !isOver(row.event))) paint(false);
  }, PAINT_MS);
  timer.unref();
  return {
    plan(plan) {
      total = plan.objects.filter((each) => each.verb !== "unchanged").length;
    },
    async event(event) {
      if (event.verb === "unchanged" && event.state !== "failed") return;
      const key = refKey(event.ref);
      rows.set(key, { event, since: rows.get(key)?.since ?? now() - event.elapsedMs });
      dirty = true;
    },
    stop() {
      if (over) return;
      over = true;
      clearInterval(timer);
      if (rows.size > 0) paint(true);
    },
  };
}
