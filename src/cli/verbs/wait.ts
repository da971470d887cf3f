// beige wait: until objects are there, Ready, deleted, have a condition or a value; says what it waits for.
import { setTimeout as pause } from "node:timers/promises";
import type { Condition, Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { pathValues, valueOf } from "../jsonpath.ts";
import { type Context, type Run, word, words } from "../flags.ts";
import { pathOf, refOfTarget, type Target, targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { nameOf, secondsText } from "../render/values.ts";
import { manifestTargets } from "../targets.ts";

type Goal =
  | { readonly is: "gone"; readonly word: string }
  | { readonly is: "there"; readonly word: string }
  | { readonly is: "condition"; readonly condition: string; readonly status: string; readonly word: string }
  /** Without a value: any that is not empty. */
  | { readonly is: "value"; readonly path: string; readonly value?: string; readonly word: string };

/** `{.spec.model.id}=x`, with or without quotes around the path. */
function valueGoal(text: string): Goal {
  const match = /^(['"]?)(\{.*\}|[^{}=]+)\1(?:=(.*))?$/s.exec(text);
  const path = match?.[2] ?? "";
  if (path === "")
    throw new BeigeError("invalid", `--for "jsonpath=${text}" is not understood`, {
      hint: "--for=jsonpath='{.status.observed.model}'=echo/echo",
    });
  // A path that cannot be is said now, not after the wait.
  pathValues(path, {});
  const value = match?.[3]?.replace(/^(['"])(.*)\1$/s, "$2");
  return { is: "value", path, word: value === undefined ? `set at ${path}` : `${value} at ${path}`, ...(value !== undefined && { value }) };
}

/** `Ready`, `create`, `delete`, `condition=Drifted`, `condition=Ready=False`, `jsonpath='{.a.b}'=value`. */
export function goalOf(text: string): Goal {
  if (text === "delete") return { is: "gone", word: "gone" };
  if (text === "create") return { is: "there", word: "there" };
  if (text.startsWith("jsonpath=")) return valueGoal(text.slice("jsonpath=".length));
  const [type = "", status = "True", ...more] = text.replace(/^condition=/, "").split("=");
  const name = type.slice(0, 1).toUpperCase() + type.slice(1);
  const value = status.slice(0, 1).toUpperCase() + status.slice(1).toLowerCase();
  if (!/^[A-Z][A-Za-z]{0,62}$/.test(name) || !["True", "False", "Unknown"].includes(value) || more.length > 0) {
    throw new BeigeError("invalid", `--for "${text}" is not understood`, {
      hint: "--for=Ready, create, delete, condition=Drifted=False or jsonpath='{.a.b}'=value",
    });
  }
  return { is: "condition", condition: name, status: value, word: value === "True" ? name : `${name}=${value}` };
}

const fresh = (object: Resource, condition: Condition | undefined): boolean =>
  condition !== undefined && condition.observedGeneration >= object.metadata.generation;

function missingValue(object: Resource, goal: Extract<Goal, { is: "value" }>): string | undefined {
  const found = pathValues(goal.path, object).map(valueOf);
  if (goal.value === undefined) return found.some((each) => each !== "") ? undefined : "there is nothing yet";
  if (found.includes(goal.value)) return undefined;
  return found.length === 0 ? "there is nothing yet" : `it is ${oneLine(found.join(" ")).slice(0, 200)}`;
}

/** Undefined when the goal is reached, else what stands between. */
export function missing(object: Resource | undefined, goal: Goal): string | undefined {
  if (goal.is === "gone") return object === undefined ? undefined : "it is still there";
  if (object === undefined) return "it does not exist yet";
  if (goal.is === "there") return undefined;
  if (goal.is === "value") return missingValue(object, goal);
  const condition = object.status?.conditions.find((each) => each.type === goal.condition);
  if (fresh(object, condition) && condition?.status === goal.status) return undefined;
  if (condition && !fresh(object, condition)) return "the newest spec has not been looked at yet";
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
  let said = context.out.live;
  try {
    for (let ms = 50; ; ms = Math.min(ms * 1.5, 500)) {
      const object = await look(context, path);
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
      } else if (object === undefined && !said) {
        // A misspelt name would be waited for as well: said at once, not at the end.
        context.out.note(`${name} does not exist yet: waiting`);
        said = true;
      }
      await pause(ms, undefined, { signal: context.signal });
    }
  } finally {
    if (shown) context.out.raw("\r\u001B[K");
  }
  await context.out.write(`${name} is ${how.goal.word}\n`);
}
