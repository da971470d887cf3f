// kubectl's dialect of JSONPath: templates with {paths}, {range}{end} and quoted text. Nothing is added, so that both tools stay the same.
import { BeigeError } from "../core/errors.ts";

type Step =
  | { readonly at: "field"; readonly name: string }
  | { readonly at: "every" | "deep-every" }
  | { readonly at: "deep"; readonly name: string }
  | { readonly at: "union"; readonly paths: readonly (readonly Step[])[] }
  | { readonly at: "index"; readonly indexes: readonly number[] }
  | { readonly at: "slice"; readonly from: number | undefined; readonly to: number | undefined; readonly step: number }
  | { readonly at: "filter"; readonly left: Operand; readonly op: string | undefined; readonly right: Operand | undefined };
type Operand = { readonly path: readonly Step[] } | { readonly value: unknown };
interface Path {
  readonly root: boolean;
  readonly steps: readonly Step[];
}
type Node =
  | { readonly node: "text"; readonly text: string }
  | { readonly node: "path"; readonly path: Path }
  | { readonly node: "range"; readonly path: Path; readonly body: readonly Node[] };

const wrong = (what: string): BeigeError =>
  new BeigeError("invalid", `jsonpath: ${what}`, { hint: "beige get agents -o jsonpath='{.items[*].metadata.name}'" });
const TEMPLATE_MAX = 64 * 1024;
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", "\\": "\\", '"': '"', "'": "'" };

const unquote = (text: string): string => text.slice(1, -1).replace(/\\(.)/g, (_, char: string) => ESCAPES[char] ?? char);

/** Index behind the quote that closes the one at `from`. */
function quoteEnd(text: string, from: number): number {
  for (let i = from + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === text[from]) return i + 1;
  }
  throw wrong("unterminated quoted string");
}

/** Index behind the bracket that closes the one at `from`; quotes inside are skipped. */
function closing(text: string, from: number, pair: readonly [string, string]): number {
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    if (text[i] === '"' || text[i] === "'") i = quoteEnd(text, i) - 1;
    else if (text[i] === pair[0]) depth++;
    else if (text[i] === pair[1] && --depth === 0) return i + 1;
  }
  throw wrong(pair[0] === "{" ? "unclosed action" : "unterminated array");
}

const splitComma = (text: string): readonly string[] => [...text.matchAll(/'(?:\\.|[^'])*'|[^,]+/g)].map((match) => match[0].trim());
const integer = (text: string, whole: string): number => {
  if (!/^-?\d{1,9}$/.test(text)) throw wrong(`invalid array index ${whole}`);
  return Number(text);
};

function operand(text: string): Operand {
  const trimmed = text.trim();
  if (/^(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")$/.test(trimmed)) return { value: unquote(trimmed) };
  if (/^-?\d+(\.\d+)?$/.test(trimmed)) return { value: Number(trimmed) };
  if (trimmed === "true" || trimmed === "false") return { value: trimmed === "true" };
  if (!/^[@$.]/.test(trimmed)) throw wrong(`unrecognized character in action: ${trimmed.slice(0, 40)}`);
  return { path: parsePath(trimmed).steps };
}

function filter(inner: string): Step {
  const match = /^(.*?[^=!<>])\s*(==|!=|<=|>=|<|>)\s*([^=~].*)$/s.exec(inner);
  if (match) return { at: "filter", left: operand(match[1] ?? ""), op: match[2], right: operand(match[3] ?? "") };
  if (/[=!<>&|~]/.test(inner.replace(/'[^']*'|"[^"]*"/g, ""))) throw wrong("unrecognized character in action");
  return { at: "filter", left: operand(inner), op: undefined, right: undefined };
}

function bracket(inner: string): Step {
  const text = inner.trim();
  if (text === "*") return { at: "every" };
  if (text.startsWith("?(") && text.endsWith(")")) return filter(text.slice(2, -1));
  if (text.startsWith("'")) {
    return { at: "union", paths: splitComma(text).map((part) => (/^'.*'$/.test(part) ? parsePath(`.${unquote(part)}`).steps : [])) };
  }
  if (text.includes(":")) {
    const [from, to, step, ...more] = text.split(":").map((part) => (part.trim() === "" ? undefined : integer(part.trim(), text)));
    if (more.length > 0 || step === 0) throw wrong(`invalid array index ${text}`);
    return { at: "slice", from, to, step: step ?? 1 };
  }
  return { at: "index", indexes: splitComma(text).map((part) => integer(part, text)) };
}

function parsePath(text: string): Path {
  const steps: Step[] = [];
  let i = /^[@$]/.test(text) ? 1 : 0;
  while (i < text.length) {
    if (text[i] === "[") {
      const end = closing(text, i, ["[", "]"]);
      steps.push(bracket(text.slice(i + 1, end - 1)));
      i = end;
      continue;
    }
    if (text[i] !== ".") throw wrong(`unrecognized character in action: ${text.slice(i, i + 40)}`);
    const deep = text[i + 1] === ".";
    i += deep ? 2 : 1;
    const name = /^(?:\\.|[^.[\]\s{}()=!<>&|~,'"\\])*/.exec(text.slice(i))?.[0] ?? "";
    i += name.length;
    const plain = name.replace(/\\(.)/g, "$1");
    if (plain === "*") steps.push({ at: deep ? "deep-every" : "every" });
    else if (plain !== "") steps.push({ at: deep ? "deep" : "field", name: plain });
    else if (deep || (i < text.length && text[i] !== "[")) throw wrong(`unrecognized character in action: ${text.slice(i, i + 40)}`);
  }
  return { root: text.startsWith("$"), steps };
}

function parse(template: string): readonly Node[] {
  if (template.length > TEMPLATE_MAX) throw wrong("the template is longer than 64 KiB");
  const top: Node[] = [];
  const open: { readonly path: Path; readonly body: Node[] }[] = [];
  for (let i = 0; i < template.length;) {
    const into = open.at(-1)?.body ?? top;
    if (template[i] !== "{") {
      const end = template.indexOf("{", i);
      into.push({ node: "text", text: template.slice(i, end < 0 ? undefined : end) });
      i = end < 0 ? template.length : end;
      continue;
    }
    const end = closing(template, i, ["{", "}"]);
    const inner = template.slice(i + 1, end - 1).trim();
    i = end;
    if (/^range\s/.test(inner)) open.push({ path: parsePath(inner.slice(5).trim()), body: [] });
    else if (inner === "end") {
      const closed = open.pop();
      if (!closed) throw wrong("not in range, nothing to end");
      (open.at(-1)?.body ?? top).push({ node: "range", ...closed });
    } else if (/^["']/.test(inner)) into.push({ node: "text", text: unquote(inner) });
    else into.push({ node: "path", path: parsePath(inner) });
  }
  if (open.length > 0) throw wrong("unclosed range");
  return top;
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const children = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : []);
const descend = (value: unknown): readonly unknown[] => [value, ...children(value).flatMap(descend)];
const field = (value: unknown, name: string): readonly unknown[] =>
  Array.isArray(value) ? value.flatMap((item) => field(item, name)) : isRecord(value) && Object.hasOwn(value, name) ? [value[name]] : [];

function slice(value: readonly unknown[], step: Extract<Step, { at: "slice" }>): readonly unknown[] {
  const place = (index: number | undefined, absent: number): number =>
    index === undefined ? absent : index < 0 ? index + value.length : index;
  const [from, to] = [Math.max(0, place(step.from, 0)), Math.min(value.length, place(step.to, value.length))];
  return step.step < 0 ? [] : value.filter((_, i) => i >= from && i < to && (i - from) % step.step === 0);
}

function index(value: readonly unknown[], wanted: number): unknown {
  const at = wanted < 0 ? wanted + value.length : wanted;
  if (at < 0 || at >= value.length) throw wrong(`array index out of bounds: index ${wanted}, length ${value.length}`);
  return value[at];
}

function holds(item: unknown, step: Extract<Step, { at: "filter" }>): boolean {
  const values = (of: Operand): readonly unknown[] => ("path" in of ? walk([item], of.path) : [of.value]);
  const left = values(step.left);
  if (step.op === undefined || step.right === undefined) return left.length > 0;
  const right = values(step.right);
  if (left.length !== 1 || right.length !== 1) return false;
  const [a, b] = [left[0], right[0]] as [string | number, string | number];
  const compare: Readonly<Record<string, boolean>> = { "==": a === b, "!=": a !== b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b };
  return (typeof a === typeof b || step.op === "!=") && compare[step.op] === true;
}

function one(value: unknown, step: Step): readonly unknown[] {
  switch (step.at) {
    case "field":
      return field(value, step.name);
    case "every":
      return children(value);
    case "deep-every":
      return descend(value).slice(1);
    case "deep":
      return descend(value).flatMap((each) => (isRecord(each) ? field(each, step.name) : []));
    case "index":
      return Array.isArray(value) ? step.indexes.map((each) => index(value, each)) : [];
    case "slice":
      return Array.isArray(value) ? slice(value, step) : [];
    case "filter":
      return Array.isArray(value) ? value.filter((item) => holds(item, step)) : [];
    case "union":
      break;
  }
  return walk([value], [step]);
}

// A union goes key by key over all values, as kubectl does.
const walk = (values: readonly unknown[], steps: readonly Step[]): readonly unknown[] =>
  steps.reduce<readonly unknown[]>(
    (now, step) => (step.at === "union" ? step.paths.flatMap((path) => walk(now, path)) : now.flatMap((value) => one(value, step))),
    values,
  );

const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : isRecord(value)
      ? Object.fromEntries(
          Object.keys(value)
            .toSorted()
            .map((key) => [key, sorted(value[key])]),
        )
      : value;
const printed = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(sorted(value));

function run(nodes: readonly Node[], root: unknown, current: unknown): string {
  const found = (path: Path): readonly unknown[] => walk([path.root ? root : current], path.steps);
  return nodes
    .map((node) => {
      if (node.node === "text") return node.text;
      if (node.node === "path") return found(node.path).map(printed).join(" ");
      return found(node.path)
        .map((item) => run(node.body, root, item))
        .join("");
    })
    .join("");
}

/** What one path finds, written `{.a.b}`, `.a.b` or `a.b`; nothing where a list is too short. Throws `invalid` in kubectl's words. */
export function pathValues(text: string, value: unknown): readonly unknown[] {
  const bare = /^\{(.*)\}$/s.exec(text.trim())?.[1]?.trim() ?? text.trim();
  if (bare === "" || bare.length > TEMPLATE_MAX) throw wrong(`"${bare.slice(0, 40)}" is no path`);
  const { steps } = parsePath(/^[.[@$]/.test(bare) ? bare : `.${bare}`);
  try {
    return walk([value], steps);
  } catch (error) {
    if (error instanceof BeigeError && error.message.includes("out of bounds")) return [];
    throw error;
  }
}

/** A value in one line, as templates print it. */
export const valueOf = printed;

/** The text that a template makes of a value. Throws `invalid` in kubectl's words. */
export const jsonPath = (template: string, value: unknown): string => run(parse(template), value, value);
