// Selectors as kubectl writes them: labels (`a=b,c!=d,e in (f,g),!h`) and fields (`metadata.name=x`).
import { BeigeError } from "./errors.ts";
import type { Resource } from "./resource.ts";

export type Requirement =
  | { readonly key: string; readonly op: "in" | "notin"; readonly values: readonly string[] }
  | { readonly key: string; readonly op: "exists" | "absent" };

const KEY = String.raw`[A-Za-z0-9][A-Za-z0-9._/-]*`;
const VALUE = String.raw`[A-Za-z0-9._:/-]*`;
const EQUALS = new RegExp(`^(${KEY})\\s*(==|=|!=)\\s*(${VALUE})$`);
const SET = new RegExp(`^(${KEY})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const EXISTS = new RegExp(`^(!?)\\s*(${KEY})$`);
const LONGEST = 4096;

/** Throws `invalid` with the part that is wrong. An empty text selects everything. */
export function parseLabels(text: string): readonly Requirement[] {
  if (text.length > LONGEST) throw new BeigeError("invalid", `label selector is longer than ${String(LONGEST)} characters`);
  if (text.trim() === "") return [];
  return split(text).map(requirement);
}

/** At commas outside parentheses. */
function split(text: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "(") depth++;
    if (text[i] === ")") depth--;
    if (text[i] === "," && depth === 0) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return [...parts, text.slice(from)];
}

function requirement(part: string): Requirement {
  const text = part.trim();
  const equals = EQUALS.exec(text);
  if (equals) return { key: equals[1] ?? "", op: equals[2] === "!=" ? "notin" : "in", values: [equals[3] ?? ""] };
  const set = SET.exec(text);
  if (set) {
    const values = (set[3] ?? "").split(",").map((v) => v.trim());
    if (values.every((v) => new RegExp(`^${VALUE}$`).test(v))) return { key: set[1] ?? "", op: set[2] === "in" ? "in" : "notin", values };
  }
  const exists = EXISTS.exec(text);
  if (exists) return { key: exists[2] ?? "", op: exists[1] === "!" ? "absent" : "exists" };
  throw new BeigeError("invalid", `label selector part "${text}" is not understood`, {
    hint: "parts: key=value, key!=value, key in (a,b), key notin (a,b), key, !key",
  });
}

/** As Kubernetes: `!=` and `notin` also select objects without the key. */
export function matchesLabels(requirements: readonly Requirement[], labels: Readonly<Record<string, string>> | undefined): boolean {
  return requirements.every((r) => {
    const value = labels !== undefined && Object.hasOwn(labels, r.key) ? labels[r.key] : undefined;
    if (!("values" in r)) return (value !== undefined) === (r.op === "exists");
    return (value !== undefined && r.values.includes(value)) === (r.op === "in");
  });
}

const FIELDS: Readonly<Record<string, (r: Resource) => string>> = {
  "metadata.name": (r) => r.metadata.name,
  "metadata.namespace": (r) => r.metadata.namespace,
};

/** Throws `invalid` for a field that cannot be selected by. */
export function parseFields(text: string): (object: Resource) => boolean {
  if (text.length > LONGEST) throw new BeigeError("invalid", `field selector is longer than ${String(LONGEST)} characters`);
  const checks = (text.trim() === "" ? [] : text.split(",")).map((part) => {
    const match = /^\s*([A-Za-z.]+)\s*(==|=|!=)\s*(.*?)\s*$/.exec(part);
    const field = match?.[1] !== undefined && Object.hasOwn(FIELDS, match[1]) ? FIELDS[match[1]] : undefined;
    if (!match || !field)
      throw new BeigeError("invalid", `field selector part "${part.trim()}" is not understood`, {
        hint: `fields: ${Object.keys(FIELDS).join(", ")} with =, == or !=`,
      });
    return (r: Resource) => (field(r) === match[3]) === (match[2] !== "!=");
  });
  return (object) => checks.every((check) => check(object));
}

/** One predicate for a list or a watch. Throws `invalid`. */
export function selector(options: {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}): (object: Resource) => boolean {
  const labels = parseLabels(options.labelSelector ?? "");
  const fields = parseFields(options.fieldSelector ?? "");
  return (object) =>
    (options.namespace === undefined || options.namespace === "" || object.metadata.namespace === options.namespace) &&
    matchesLabels(labels, object.metadata.labels) &&
    fields(object);
}
