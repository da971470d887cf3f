// Words for objects: `agent/travel`, `agents`, `ag team.travel`, and where the API keeps them.
import { API_VERSION, DEFAULT_NAMESPACE, type Ref } from "../core/resource.ts";
import { BeigeError } from "../core/errors.ts";
import { type Client } from "./client.ts";
import { nearest } from "../core/text.ts";

export interface KindName {
  readonly kind: string;
  readonly plural: string;
  readonly short: readonly string[];
  readonly namespaced: boolean;
  /** Where the API keeps it, when not with ours. */
  readonly base?: string;
}

/** Known without asking, in the order of `get all`; the gateway is asked for any other. */
export const KINDS: readonly KindName[] = [
  { kind: "Provider", plural: "providers", short: ["pr"], namespaced: false },
  { kind: "Plugin", plural: "plugins", short: ["pl"], namespaced: false },
  { kind: "Agent", plural: "agents", short: ["ag"], namespaced: true },
  { kind: "Schedule", plural: "schedules", short: ["sch"], namespaced: true },
  { kind: "Source", plural: "sources", short: ["src"], namespaced: false },
];

/** What is shown in the shapes of Kubernetes, read-only: as kubectl sees it. */
const PROJECTED: readonly KindName[] = [
  { kind: "Event", plural: "events", short: ["ev"], namespaced: true, base: "/api/v1" },
  { kind: "Namespace", plural: "namespaces", short: ["ns"], namespaced: false, base: "/api/v1" },
  { kind: "Pod", plural: "pods", short: ["po"], namespaced: true, base: "/api/v1" },
];

/** Words for all kinds at once, as `kubectl get` takes the category. */
const ALL: ReadonlySet<string> = new Set(["all", "beige"]);

const fits = (kind: KindName, word: string): boolean =>
  kind.kind.toLowerCase() === word || kind.plural === word || kind.short.includes(word);

/** What people type for kinds, for completion and "did you mean". */
export const kindWords = (kinds: readonly KindName[]): readonly string[] =>
  kinds.flatMap((kind) => [kind.kind.toLowerCase(), kind.plural, ...kind.short]);

export async function findKind(client: Client, word: string): Promise<KindName> {
  const lower = word.toLowerCase();
  const known = [...KINDS, ...PROJECTED].find((kind) => fits(kind, lower));
  if (known) return known;
  const asked = await client
    .get<readonly KindName[] | { readonly kinds?: readonly KindName[]; readonly items?: readonly KindName[] }>({ path: "/api/kinds" })
    .then(
      (answer) => ("length" in answer ? answer : (answer.kinds ?? answer.items ?? [])),
      () => KINDS,
    );
  const found = asked.find((kind) => fits(kind, lower));
  if (found) return found;
  const near = nearest(lower, kindWords(asked));
  throw new BeigeError("invalid", `unknown kind "${word}"`, {
    hint:
      near === undefined
        ? `write KIND/NAME, such as agent/${lower}; kinds: ${asked.map((kind) => kind.plural).join(", ")}`
        : `did you mean "${near}"?`,
  });
}

export interface Target {
  readonly kind: KindName;
  /** Absent: every object of the kind. */
  readonly name?: string;
  readonly namespace: string;
}

const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** NAME, or NS.NAME for another namespace than the one asked for. */
export function splitName(
  kind: KindName,
  text: string,
  namespace: string | undefined,
): { readonly name: string; readonly namespace: string } {
  const dot = text.indexOf(".");
  const [ns, name] = kind.namespaced && dot > 0 ? [text.slice(0, dot), text.slice(dot + 1)] : [namespace ?? DEFAULT_NAMESPACE, text];
  if (!NAME.test(name) || (kind.namespaced && !NAME.test(ns))) {
    throw new BeigeError("invalid", `"${text}" cannot name ${kind.kind === "Agent" ? "an" : "a"} ${kind.kind}`, {
      hint: "names are lower-case letters, digits and '-', at most 63 characters",
    });
  }
  return { name, namespace: kind.namespaced ? ns : "" };
}

/** `agent travel other`, `agents`, `agent/travel plugin/git`, `agents,plugins`, `all`. */
export async function targetsOf(client: Client, args: readonly string[], namespace: string | undefined): Promise<readonly Target[]> {
  const [first = "", ...names] = args;
  const whole = (kind: KindName): Target => ({ kind, namespace: kind.namespaced ? (namespace ?? DEFAULT_NAMESPACE) : "" });
  if (args.some((arg) => arg.includes("/"))) {
    const targets: Target[] = [];
    for (const arg of args) {
      const slash = arg.indexOf("/");
      if (slash < 1) throw new BeigeError("invalid", `"${arg}" is not KIND/NAME`, { hint: `write all of them as KIND/NAME` });
      const kind = await findKind(client, arg.slice(0, slash));
      targets.push({ kind, ...splitName(kind, arg.slice(slash + 1), namespace) });
    }
    return targets;
  }
  if (ALL.has(first)) return KINDS.map(whole);
  const kinds: KindName[] = [];
  for (const part of first.split(",").filter(Boolean)) kinds.push(await findKind(client, part));
  const [kind] = kinds;
  if (kind === undefined) throw new BeigeError("invalid", "no kind given", { hint: "name a KIND, or KIND/NAME such as agent/travel" });
  if (names.length === 0) return kinds.map(whole);
  if (kinds.length > 1) throw new BeigeError("invalid", "names belong to one kind", { hint: "beige get agent/a plugin/b" });
  return names.map((name) => ({ kind, ...splitName(kind, name, namespace) }));
}

export const refOfTarget = (target: Target): Ref => ({ kind: target.kind.kind, namespace: target.namespace, name: target.name ?? "" });

/** Path of one object, or of all of a kind; `everywhere` looks in every namespace. */
export function pathOf(target: Target, everywhere = false): string {
  const base = target.kind.base ?? `/apis/${API_VERSION}`;
  const folder =
    target.kind.namespaced && !everywhere
      ? `${base}/namespaces/${target.namespace}/${target.kind.plural}`
      : `${base}/${target.kind.plural}`;
  return target.name === undefined ? folder : `${folder}/${target.name}`;
}

/** An agent as the runtime routes name it: NAME, NS.NAME or agent/NAME. */
export function agentName(text: string, namespace: string | undefined): string {
  const kind = KINDS.find((each) => each.kind === "Agent") as KindName;
  const bare = /^(agents?|ag)\//.test(text) ? text.slice(text.indexOf("/") + 1) : text;
  const { name, namespace: ns } = splitName(kind, bare, namespace);
  return ns === DEFAULT_NAMESPACE ? name : `${ns}.${name}`;
}
