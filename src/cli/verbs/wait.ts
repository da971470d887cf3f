// beige wait: until objects are Ready, deleted, or have a condition; says what it waits for.
import { setTimeout as pause } from "node:timers/promises";
import type { Condition, Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Run, word, words } from "../flags.ts";
import { pathOf, refOfTarget, type Target, targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { nameOf, secondsText } from "../render/values.ts";
import { manifestTargets } from "../targets.ts";

interface Goal {
  /** Absent: until it is gone. */
  readonly condition?: string;
  readonly status: string;
  readonly word: string;
}

/** `Ready`, `delete`, `condition=Drifted`, `condition=Ready=False`. */
export function goalOf(text: string): Goal {
  if (text === "delete") return { status: "", word: "gone" };
  const [type = "", status = "True", ...more] = text.replace(/^condition=/, "").split("=");
  const name = type.slice(0, 1).toUpperCase() + type.slice(1);
  const value = status.slice(0, 1).toUpperCase() + status.slice(1).toLowerCase();
  if (!/^[A-Z][A-Za-z]{0,62}$/.test(name) || !["True", "False", "Unknown"].includes(value) || more.length > 0) {
    throw new BeigeError("invalid", `--for "${text}" is not understood`, {
      hint: "--for=Ready, --for=delete or --for=condition=Drifted=False",
    });
  }
  return { condition: name, status: value, word: value === "True" ? name : `${name}=${value}` };
}

const fresh = (object: Resource, condition: Condition | undefined): boolean =>
  condition !== undefined && condition.observedGeneration >= object.metadata.generation;

/** Undefined when the goal is reached, else what stands between. */
export function missing(object: Resource | undefined, goal: Goal): string | undefined {
  if (goal.condition === undefined) return object === undefined ? undefined : "it is still there";
  const condition = object?.status?.conditions.find((each) => each.type === goal.condition);
  if (object && fresh(object, condition) && condition?.status === goal.status) return undefined;
  if (object && condition && !fresh(object, condition)) return "the newest spec has not been looked at yet";
  return condition ? [condition.reason, condition.message].filter(Boolean).map(oneLine).join(": ") : "not looked at yet";
}

export const run: Run = async (context, input) => {
  if (words(input, "filename").length === 0 && input.args.length === 0)
    throw new BeigeError("invalid", "wait for what?", { hint: "beige wait agent/NAME --for=Ready" });
  const targets =
    words(input, "filename").length > 0
      ? await manifestTargets(context, input)
      : await named(context, input.args, word(input, "namespace"));
  const goal = goalOf(word(input, "for") ?? "Ready");
  const timeoutMs = milliseconds(word(input, "timeout") ?? "60s", "--timeout");
  const started = performance.now();
  for (const target of targets) await one(context, target, { goal, started, timeoutMs });
  return 0;
};

async function named(context: Context, args: readonly string[], namespace: string | undefined): Promise<readonly Target[]> {
  const found: Target[] = [];
  for (const target of await targetsOf(context.client, args, namespace)) {
    if (target.name !== undefined) found.push(target);
    else {
      const list = await context.client.get<{ readonly items: readonly Resource[] }>({ path: pathOf(target) });
      found.push(...list.items.map((object) => ({ ...target, name: object.metadata.name })));
    }
  }
  return found;
}

interface Waiting {
  readonly goal: Goal;
  readonly started: number;
  readonly timeoutMs: number;
}

async function look(context: Context, path: string): Promise<Resource | undefined> {
  try {
    return await context.client.get<Resource>({ path });
  } catch (error) {
    if (error instanceof BeigeError && error.code === "not_found") return undefined;
    throw error;
  }
}

async function one(context: Context, target: Target, how: Waiting): Promise<void> {
  const name = nameOf(refOfTarget(target));
  const path = pathOf(target);
  let shown = false;
  try {
    for (let ms = 50; ; ms = Math.min(ms * 1.5, 500)) {
      const object = await look(context, path);
      if (object === undefined && how.goal.condition !== undefined) throw new BeigeError("not_found", `${name} not found`);
      const why = missing(object, how.goal);
      if (why === undefined) break;
      const spent = performance.now() - how.started;
      if (spent > how.timeoutMs)
        throw new BeigeError("timeout", `${name} is not ${how.goal.word} after ${secondsText(how.timeoutMs)}: ${why}`, {
          hint: `beige describe ${name}`,
        });
      if (context.out.live) {
        context.out.raw(
          `\r\u001B[K ${name} not ${how.goal.word}: ${why} (${secondsText(spent)} of ${secondsText(how.timeoutMs)})`.slice(
            0,
            context.out.columns + 3,
          ),
        );
        shown = true;
      }
      await pause(ms, undefined, { signal: context.signal });
    }
  } finally {
    if (shown) context.out.raw("\r\u001B[K");
  }
  await context.out.write(`${name} ${how.goal.condition === undefined ? "is gone" : `is ${how.goal.word}`}\n`);
}
