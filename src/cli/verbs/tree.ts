// beige tree: an object with what hangs on it and what it uses, each with its state.
import { age } from "../../core/age.ts";
import { condition, type Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Run, word } from "../flags.ts";
import { KINDS, pathOf, refOfTarget, targetsOf } from "../names.ts";
import { oneLine, type Output } from "../output.ts";
import { ownersOf } from "../owners.ts";
import { ascii, fit, nameOf } from "../render/values.ts";

export interface Branch {
  readonly name: string;
  /** Words behind the name: READY, a reason, facts. */
  readonly state: string;
  readonly tone?: "good" | "bad" | "rest";
  readonly below: readonly Branch[];
}

const objectName = ({ kind, metadata }: Resource): string => nameOf({ kind, namespace: metadata.namespace ?? "", name: metadata.name });
const observed = (object: Resource, field: string): string => {
  const value = object.status?.observed?.[field];
  return typeof value === "string" || typeof value === "number" ? oneLine(String(value)) : "";
};

function stateOf(object: Resource): Pick<Branch, "state" | "tone"> {
  if (object.metadata.deletionTimestamp !== undefined) return { state: "BEING DELETED", tone: "rest" };
  if (condition(object, "Suspended")?.status === "True") return { state: "SUSPENDED", tone: "rest" };
  const ready = condition(object, "Ready");
  if (ready === undefined) return { state: "NOT LOOKED AT YET", tone: "rest" };
  if (ready.status === "True") return { state: "READY", tone: "good" };
  return { state: `NOT READY  ${oneLine(ready.message === "" ? ready.reason : ready.message)}`, tone: "bad" };
}

const branch = (object: Resource, more: string, below: readonly Branch[] = []): Branch => {
  const { state, tone } = stateOf(object);
  return { name: objectName(object), state: [state, more].filter(Boolean).join("  "), ...(tone !== undefined && { tone }), below };
};

interface AgentSpecPart {
  readonly model?: { readonly provider?: string };
  readonly fallbacks?: readonly { readonly provider?: string }[];
  readonly tools?: readonly string[];
}

/** Providers and plugins of an agent, as names of objects. */
export function usesOf(agent: Resource, plugins: readonly Resource[]): readonly string[] {
  const { model, fallbacks = [], tools = [] } = agent.spec as AgentSpecPart;
  const providers = [model, ...fallbacks].flatMap((each) => (each?.provider === undefined ? [] : [`provider/${each.provider}`]));
  const bringing = tools.map((tool) => {
    const [first = "", second] = tool.split("/");
    if (second !== undefined) return `plugin/${first}`;
    const found = plugins.find((plugin) => {
      const brought = plugin.status?.observed?.["tools"];
      return plugin.metadata.name === tool || (Array.isArray(brought) && brought.includes(tool));
    });
    return found === undefined ? `tool ${tool} (nobody brings it)` : `plugin/${found.metadata.name}`;
  });
  return [...new Set([...providers, ...bringing])];
}

const near = (a: Resource, b: Resource): boolean => (a.metadata.namespace ?? "") === (b.metadata.namespace ?? "");

/** From any object down. */
export function treeOf(root: Resource, all: readonly Resource[], now: number): Branch {
  const of = (kind: string): readonly Resource[] => all.filter((each) => each.kind === kind);
  const plugins = of("Plugin");
  const schedule = (each: Resource): Branch => {
    const next = observed(each, "next");
    return branch(each, [next === "" ? "" : `next ${next}`, observed(each, "timeZone")].filter(Boolean).join(" "));
  };
  const agent = (each: Resource): Branch => {
    const uses = usesOf(each, plugins);
    const container = observed(each, "container");
    const started = Date.parse(observed(each, "startedAt"));
    const box =
      container === ""
        ? []
        : [
            {
              name: `sandbox ${container}`,
              state: [observed(each, "image"), Number.isFinite(started) ? `running ${age(now - started)}` : ""].filter(Boolean).join("  "),
              below: [],
            },
          ];
    const times = of("Schedule").filter((one) => near(one, each) && (one.spec as { readonly agent?: string }).agent === each.metadata.name);
    const using = uses.length === 0 ? [] : [{ name: `uses ${uses.join(", ")}`, state: "", below: [] }];
    return branch(each, observed(each, "model"), [...using, ...box, ...times.map(schedule)]);
  };
  const users = (name: string): readonly Branch[] =>
    of("Agent")
      .filter((each) => usesOf(each, plugins).includes(name))
      .map((each) => ({ ...branch(each, ""), name: `used by ${objectName(each)}` }));
  const shown = (each: Resource, owned: readonly Resource[]): Branch => {
    if (each.kind === "Agent") return agent(each);
    if (each.kind === "Schedule") return schedule(each);
    if (each.kind !== "Source") return branch(each, "", owned.length > 0 ? [] : users(objectName(each)));
    const manager = `source/${each.metadata.name}`;
    const mine = all.filter((one) => (one.metadata.managedFields ?? []).some((entry) => entry.manager === manager));
    const agents = new Set(mine.filter((one) => one.kind === "Agent").map((one) => `${one.metadata.namespace} ${one.metadata.name}`));
    // A schedule stands below its agent where both are of this source.
    const top = mine.filter(
      (one) => one.kind !== "Schedule" || !agents.has(`${one.metadata.namespace} ${(one.spec as { readonly agent?: string }).agent ?? ""}`),
    );
    return branch(
      each,
      observed(each, "revision"),
      top.map((one) => shown(one, mine)),
    );
  };
  const whole = shown(root, []);
  // Below the root the tree itself says it.
  const owners = ownersOf(root).map(({ name, source }): Branch => {
    const from = all.find((each) => each.kind === "Source" && each.metadata.name === source);
    return from === undefined
      ? { name: `owned by ${name}`, state: "", below: [] }
      : { ...branch(from, observed(from, "revision")), name: `owned by ${name}` };
  });
  return { ...whole, below: [...owners, ...whole.below] };
}

const TONE = { good: "green", bad: "red", rest: "yellow" } as const;

function lines(out: Output, root: Branch): readonly string[] {
  const rows: { readonly left: string; readonly branch: Branch }[] = [];
  const add = (each: Branch, lead: string, last: boolean | undefined): void => {
    const [tick, below] = out.unicode ? (last === true ? ["└─ ", "   "] : ["├─ ", "│  "]) : last === true ? ["`- ", "   "] : ["|- ", "|  "];
    rows.push({ left: `${last === undefined ? "" : lead + tick}${each.name}`, branch: each });
    each.below.forEach((child, i) => add(child, last === undefined ? "" : lead + below, i === each.below.length - 1));
  };
  add(root, "", undefined);
  const width = Math.min(48, Math.max(...rows.filter((row) => row.branch.state !== "").map((row) => row.left.length)));
  return rows.map(({ left, branch: each }) => {
    const text = fit(`${left.padEnd(width)}  ${each.state}`.trimEnd(), out.tty ? out.columns : undefined);
    if (each.tone === undefined || text.length <= width + 2) return text;
    const word = /^(NOT READY|READY|SUSPENDED|BEING DELETED|NOT LOOKED AT YET)/.exec(text.slice(width + 2))?.[0] ?? "";
    return `${text.slice(0, width + 2)}${out.paint(TONE[each.tone], word)}${text.slice(width + 2 + word.length)}`;
  });
}

async function everything(context: Context): Promise<readonly Resource[]> {
  const lists = KINDS.map(async (kind) => {
    const { items } = await context.client.get<{ readonly items: readonly Resource[] }>({ path: pathOf({ kind, namespace: "" }, true) });
    return items.map((object) => ({ ...object, kind: kind.kind }));
  });
  return (await Promise.all(lists)).flat();
}

export const run: Run = async (context, input) => {
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const all = await everything(context);
  const roots = targets.flatMap((target) => {
    const ref = refOfTarget(target);
    const found = all.filter(
      (each) =>
        each.kind === ref.kind &&
        (target.name === undefined || each.metadata.name === ref.name) &&
        (ref.namespace === "" || each.metadata.namespace === ref.namespace),
    );
    if (found.length === 0 && target.name !== undefined)
      throw new BeigeError("not_found", `${nameOf(ref)} not found`, { hint: `beige get ${target.kind.plural}` });
    return found;
  });
  const trees = roots.map((root) => treeOf(root, all, context.now()));
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify(trees.length === 1 ? trees[0] : trees, undefined, 2)}\n`);
  else await context.out.write(ascii(context.out, trees.map((tree) => `${lines(context.out, tree).join("\n")}\n`).join("\n")));
  return 0;
};
