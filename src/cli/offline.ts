// What needs no gateway: reading, checking and comparing manifests. Loaded only by the verbs that use it, since it brings the YAML reader and the validators.
import type { ManifestFile, ObjectPlan, StackPlan } from "../core/control.ts";
import { cronProblem, zoneProblem } from "../core/cron.ts";
import { diffMetadata, diffSpecs, jsonPatch } from "../core/diff.ts";
import { BeigeError, type Problem } from "../core/errors.ts";
import { order } from "../core/graph.ts";
import type { FieldChange } from "../core/kind.ts";
import { type ManifestDocument, parseYaml, readManifests, toYaml } from "../core/manifest.ts";
import { normalise } from "../core/normalise.ts";
import { type Ref, refKey, refName, RESTARTED_AT } from "../core/resource.ts";
import { plainValue } from "../core/tree.ts";
import { validateDocument, validateHost } from "../core/validate.ts";
import { answerFiles } from "./manifests.ts";
import { MARK, type Snapshot } from "./snapshot.ts";

interface Read {
  readonly documents: readonly ManifestDocument[];
  readonly problems: readonly Problem[];
}

/** Where the text files that manifests name come from: the disk, or the commit that the manifests come from. */
type Answer = typeof answerFiles;

/** Reads the manifests and the text files that they name, which lie below each manifest's folder. */
function read(files: readonly ManifestFile[], answer: Answer): Read {
  const first = readManifests(files);
  if (first.needFiles.length === 0) return first;
  const answered: ManifestFile[] = [];
  const missing: Problem[] = [];
  for (const file of files) {
    try {
      answered.push(
        ...answer(
          [file],
          first.needFiles.filter((need) => need.manifest === file.name),
        ),
      );
    } catch (error) {
      if (!(error instanceof BeigeError)) throw error;
      missing.push({
        message: error.message,
        at: { file: file.name, line: 1, column: 1 },
        ...(error.hint !== undefined && { hint: error.hint }),
      });
      answered.push(file);
    }
  }
  const again = readManifests(answered);
  return { documents: again.documents, problems: [...missing, ...again.problems] };
}

/** Every problem that can be seen without the gateway. */
export function check(
  files: readonly ManifestFile[],
  answer: Answer = answerFiles,
): {
  readonly problems: readonly Problem[];
  readonly objects: number;
  readonly documents: readonly ManifestDocument[];
} {
  const { documents, problems } = read(files, answer);
  const all = [...problems, ...documents.flatMap((document) => [...validateDocument(document), ...timeProblems(document)])];
  return { problems: all.toSorted(byPlace(files.map((file) => file.name))), objects: documents.length, documents };
}

/** What the schema cannot see in a Schedule: its cron expression and its time zone. */
function timeProblems(document: ManifestDocument): readonly Problem[] {
  if (document.ref?.kind !== "Schedule") return [];
  const { spec } = document.value as { readonly spec?: Readonly<Record<string, unknown>> };
  const tell = (field: "cron" | "timeZone", problemOf: (text: string) => string | undefined): readonly Problem[] => {
    const text = spec?.[field];
    const message = typeof text === "string" && text !== "" ? problemOf(text) : undefined;
    if (message === undefined) return [];
    const path = `/spec/${field}`;
    return [{ message, path, at: document.at(path), object: `Schedule/${document.ref?.name ?? ""}` }];
  };
  return [...tell("cron", cronProblem), ...tell("timeZone", zoneProblem)];
}

const byPlace =
  (files: readonly string[]) =>
  (a: Problem, b: Problem): number => {
    const rank = (problem: Problem): number => (problem.at ? files.indexOf(problem.at.file) : -1);
    return rank(a) - rank(b) || (a.at?.line ?? 0) - (b.at?.line ?? 0) || (a.at?.column ?? 0) - (b.at?.column ?? 0);
  };

interface Held {
  readonly ref: Ref;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: object; readonly annotations?: object };
  readonly spec: unknown;
}

function held(documents: readonly ManifestDocument[]): readonly Held[] {
  return documents.flatMap((document) => {
    if (document.ref === undefined) return [];
    const value = normalise(document.ref.kind, document.value) as unknown as Omit<Held, "ref">;
    return [{ ref: document.ref, kind: document.ref.kind, metadata: value.metadata, spec: value.spec }];
  });
}

/** Objects of a snapshot, in their one spelling. */
function heldIn(snapshot: Snapshot): readonly Held[] {
  return snapshot.items.map((item) => {
    const { metadata, spec } = normalise(item.kind, item) as unknown as Omit<Held, "ref">;
    return { ref: { kind: item.kind, namespace: metadata.namespace ?? "", name: metadata.name }, kind: item.kind, metadata, spec };
  });
}

const written = ({ metadata: { labels, annotations }, spec }: Held): object => ({
  metadata: { ...(labels && { labels }), ...(annotations && { annotations }) },
  spec,
});

/** RFC 6902, as the gateway's plans have it. */
const patchOf = (before: Held | undefined, after: Held | undefined): NonNullable<ObjectPlan["patch"]> =>
  after === undefined
    ? [{ op: "remove", path: "" }]
    : before === undefined
      ? [{ op: "add", path: "", value: written(after) }]
      : jsonPatch(written(before), written(after));

/** What a redacted snapshot does not tell is not known to differ. */
const isHidden = (field: FieldChange): boolean => field.before === MARK;

/** A replacement that an apply leaves to a person; whether an agent is idle is not known here. */
function heldOf(after: Held | undefined, fields: readonly FieldChange[]): ObjectPlan["held"] {
  const { update } = (after?.spec ?? {}) as { readonly update?: { readonly strategy?: string } };
  if (after?.kind !== "Agent" || update?.strategy !== "manual" || fields.some(({ path }) => path.endsWith(`[${RESTARTED_AT}]`)))
    return undefined;
  const forcing = fields.filter((field) => field.forces === true);
  return { why: "spec", fields: forcing, until: `held back: beige rollout restart ${refName(after.ref)}` };
}

function planOne(before: Held | undefined, after: Held | undefined): ObjectPlan {
  const ref = (after ?? before)?.ref as Ref;
  const fields = [...diffMetadata(before?.metadata, after?.metadata), ...diffSpecs(ref.kind, before?.spec, after?.spec)].filter(
    (field) => !isHidden(field),
  );
  const forces = before && after ? fields.find((field) => field.forces === true)?.path : undefined;
  const later = forces === undefined ? undefined : heldOf(after, fields);
  const replaced = later === undefined ? "replace" : "replace-later";
  const verb = !before ? "create" : !after ? "delete" : fields.length === 0 ? "unchanged" : forces === undefined ? "update" : replaced;
  const why = verb === "delete" ? (["prune"] as const) : (["spec"] as const);
  const shown = verb === "delete" ? [] : fields;
  const patch = verb === "unchanged" ? [] : patchOf(before, after);
  return {
    ref,
    verb,
    why,
    fields: shown,
    drift: [],
    actions: [],
    patch,
    ...(forces !== undefined && { forces }),
    ...(later && { held: later }),
  };
}

/** What manifests are compared with. */
export type Before =
  | { readonly files: readonly ManifestFile[] }
  /** Of a commit: what was wrong there is what a change may mend, so only what is right is compared. */
  | { readonly files: readonly ManifestFile[]; readonly answer: Answer }
  | { readonly snapshot: Snapshot };

interface Compared {
  readonly plan?: StackPlan;
  readonly problems: readonly Problem[];
  /** Problems of the commit that is compared with. */
  readonly passedOver: number;
}

function heldBefore(before: Before): {
  readonly objects: readonly Held[];
  readonly problems: readonly Problem[];
  readonly passedOver: number;
} {
  if ("snapshot" in before) return { objects: heldIn(before.snapshot), problems: [], passedOver: 0 };
  const { documents, problems } = check(before.files, "answer" in before ? before.answer : answerFiles);
  if (!("answer" in before)) return { objects: problems.length > 0 ? [] : held(documents), problems, passedOver: 0 };
  const right = documents.filter((document) => document.ref !== undefined && validateDocument(document).length === 0);
  return { objects: held(right), problems: [], passedOver: problems.length };
}

/** Compares two sets of manifests by their normalised specs: what only the older one has is deleted. What runs is not looked at, so sessions and drift are not known. */
export function planAgainst(after: readonly ManifestFile[], before: Before): Compared {
  const now = check(after);
  const then = heldBefore(before);
  const { passedOver } = then;
  const problems = [...now.problems, ...then.problems];
  if (problems.length > 0) return { problems, passedOver };
  const old = new Map(then.objects.map((object) => [refKey(object.ref), object]));
  const { ordered } = order(held(now.documents), () => []);
  const wanted = new Set(ordered.map((object) => refKey(object.ref)));
  const gone = [...old.values()].filter((object) => !wanted.has(refKey(object.ref)));
  const objects = [
    ...ordered.map((object) => planOne(old.get(refKey(object.ref)), object)),
    ...gone.map((object) => planOne(object, undefined)),
  ];
  const count = (...verbs: readonly ObjectPlan["verb"][]): number => objects.filter((each) => verbs.includes(each.verb)).length;
  const summary = {
    create: count("create"),
    update: count("update"),
    replace: count("replace", "replace-later"),
    delete: count("delete"),
    unchanged: count("unchanged"),
  };
  return { problems, passedOver, plan: { objects, summary, left: [] } };
}

/** The objects that manifests name, whether or not they are valid otherwise. */
export function refsOf(files: readonly ManifestFile[]): { readonly refs: readonly Ref[]; readonly problems: readonly Problem[] } {
  const { documents, problems } = readManifests(files);
  const refs = documents.flatMap((document) => (document.ref ? [document.ref] : []));
  // A variable that is not set here does not hide an object's name.
  return {
    refs: order(
      refs.map((ref) => ({ kind: ref.kind, metadata: ref, ref })),
      () => [],
    ).ordered.map((each) => each.ref),
    problems: refs.length > 0 ? [] : problems,
  };
}

export const yamlText = (value: unknown): string => toYaml(value);
/** The plain value of one YAML document, or the first thing that is wrong with it. */
export function yamlValue(text: string): { readonly value: unknown } | { readonly message: string } {
  const { tree, faults } = parseYaml(text);
  const [first] = faults;
  if (first !== undefined) return { message: first.message };
  return tree === undefined ? { message: "it is empty" } : { value: plainValue(tree) };
}
export const policyOf = validateHost;
export { looseReferences } from "./references.ts";
