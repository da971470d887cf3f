// Writes of single objects through the API: create, update, server-side apply, merge patch and JSON patch, with the checks of an apply.
import type { Control, WriteRequest } from "../core/control.ts";
import { applyJsonPatch, mergePatch, sameSpec } from "../core/diff.ts";
import { refIn } from "../core/documents.ts";
import { BeigeError, type Problem } from "../core/errors.ts";
import { unknownReferences } from "../core/graph.ts";
import { keepSpec, normaliseSpec, withoutServerFields } from "../core/normalise.ts";
import { applyOwned, updateOwned, type Owned } from "../core/ownership.ts";
import { refKey, refName, refOf, type Ref, type Resource } from "../core/resource.ts";
import { isObject } from "../core/schema.ts";
import { validateObject } from "../core/validate.ts";
import type { World } from "../core/world.ts";
import { changedPaths } from "./apply/commit.ts";
import type { StageDeps } from "./apply/stage.ts";
import { recordDeed, variableProblems } from "./asked.ts";
import { refuseTaking } from "./guarded.ts";
import { beingDeleted, notFound } from "./language.ts";
import { ownsThrough, withLastApplied } from "./lastapplied.ts";
import { birthUid, changedObject, newObject, sameObject, type Content } from "./object.ts";
import { writtenOwners } from "./owners.ts";
import { checkTogether, keptText, ratchet } from "./ratchet.ts";
import { overlaid } from "./view.ts";

type Body = Readonly<Record<string, unknown>>;

const metadataOf = (body: unknown): Body => {
  const metadata = isObject(body) ? body["metadata"] : undefined;
  return isObject(metadata) ? metadata : {};
};

const refuse = (problems: readonly Problem[], ref: Ref): never => {
  const first = problems[0];
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  throw new BeigeError("invalid", `${refName(ref)} is not valid: ${first?.message ?? ""}${more}`, {
    problems,
    ...(first?.hint === undefined ? {} : { hint: first.hint }),
  });
};

/** uid and resourceVersion of a body are conditions; of an absent object none can hold. */
function preconditions(ref: Ref, body: unknown, before: Resource | undefined): void {
  const { uid, resourceVersion } = metadataOf(body);
  if (uid !== undefined && uid !== "" && uid !== before?.metadata.uid) {
    throw new BeigeError("conflict", `${refName(ref)} is not the object with that uid`, { hint: "read it again" });
  }
  if (resourceVersion === undefined || resourceVersion === "" || resourceVersion === before?.metadata.resourceVersion) return;
  throw new BeigeError("conflict", `${refName(ref)} was changed meanwhile`, { hint: "read it again, and change what you read" });
}

/** The part of a patch's answer that people write. */
const userPart = ({ apiVersion, kind, metadata, spec }: Resource): Body => ({
  apiVersion,
  kind,
  metadata: {
    name: metadata.name,
    ...(metadata.namespace === "" ? {} : { namespace: metadata.namespace }),
    ...(metadata.labels === undefined ? {} : { labels: metadata.labels }),
    ...(metadata.annotations === undefined ? {} : { annotations: metadata.annotations }),
  },
  spec,
});

/** An empty mapping is how a patch removes the last label. */
const ownedOf = (value: unknown): Owned => {
  const { labels, annotations } = metadataOf(value) as { labels?: object; annotations?: object };
  return {
    metadata: { ...(labels === undefined ? {} : { labels }), ...(annotations === undefined ? {} : { annotations }) },
    spec: (value as Body)["spec"],
  };
};

const named = (value: unknown, ref: Ref): unknown => {
  // Clients may leave the name to the address that they write to.
  if (!isObject(value)) return value;
  const metadata = { name: ref.name, ...(ref.namespace === "" ? {} : { namespace: ref.namespace }), ...metadataOf(value) };
  if (ref.namespace === "" && metadata.namespace === "") delete metadata.namespace;
  return { ...value, metadata };
};

interface Changed {
  readonly before?: Resource;
  readonly after: Resource;
}

interface Prepared extends Changed {
  readonly warnings: readonly string[];
}

interface Wanted {
  /** As people would write it. */
  readonly value: unknown;
  /** What the writer starts from; a JSON patch may have changed who owns its fields. */
  readonly from?: Resource;
}

/** Checks the body's conditions too: in a JSON patch they show only when it has been applied. */
function wantedValue({ ref, op, body }: WriteRequest, before: Resource | undefined): Wanted {
  if (op === "json") {
    if (before === undefined) throw notFound(ref);
    const whole = applyJsonPatch(before, body);
    preconditions(ref, whole, before);
    const from = { ...before, metadata: { ...before.metadata, managedFields: writtenOwners(whole, before) } };
    return { value: named(withoutServerFields(whole), ref), from };
  }
  preconditions(ref, body, before);
  const from = before === undefined ? {} : { from: before };
  if (op !== "merge") return { value: named(withoutServerFields(body), ref), ...from };
  if (before === undefined) throw notFound(ref);
  return { value: withoutServerFields(mergePatch(userPart(before), withoutServerFields(body))), ...from };
}

/**
 * Throws `invalid` when the body is for another object, or is wrong in what it changes. Answers what was wrong before and
 * stays: a schema that has become stricter locks nobody out of the rest of an object.
 */
function checkIdentity(value: unknown, ref: Ref, deps: StageDeps, before: Resource | undefined): readonly Problem[] {
  const { schemas } = deps.language;
  const problems = validateObject(value, schemas).map((p): Problem => ({
    message: p.message,
    path: p.path,
    object: `${ref.kind}/${ref.name}`,
    ...(p.hint === undefined ? {} : { hint: p.hint }),
  }));
  const stored = before === undefined ? undefined : userPart(before);
  const sides = { kind: ref.kind, before: stored, after: value, schemas };
  const { refused, kept } = ratchet(problems, { ...sides, of: "fields", old: () => validateObject(stored, schemas) });
  if (refused.length > 0) refuse(refused, ref);
  const own = refIn(value, schemas);
  if (own !== undefined && refKey(own) === refKey(ref)) return kept;
  return refuse(
    [{ message: `the object is for ${own === undefined ? "nobody" : refName(own)}, not for ${refName(ref)}`, path: "/metadata/name" }],
    ref,
  );
}

/** Fields after the write, with their owners. Throws `conflict` where others own them. */
function contentOf(deps: StageDeps, request: WriteRequest, value: unknown, before: Resource | undefined): Content {
  const { ref, manager, force } = request;
  const { schemas } = deps.language;
  const time = new Date(deps.clock.now()).toISOString();
  const managedFields = before?.metadata.managedFields ?? [];
  const sent = ownedOf(value);
  if (request.op !== "apply") {
    const after = { ...sent, spec: normaliseSpec(ref.kind, keepSpec(ref.kind, sent.spec, before?.spec, schemas), schemas) };
    const was = before === undefined ? {} : { before };
    const owners = updateOwned({ kind: ref.kind, ...was, after, sent, managedFields, manager, time, schemas });
    return { spec: after.spec, ...(sent.metadata as Pick<Content, "labels" | "annotations">), managedFields: owners };
  }
  const live = before === undefined ? {} : { live: before };
  const asked = { kind: ref.kind, ...live, managedFields, manager, applied: sent, time, schemas };
  const first = applyOwned({ ...asked, force });
  const taken = !force && first.conflicts.length > 0 && ownsThrough({ manager, live: before, schemas }, first.conflicts);
  const done = taken ? { ...applyOwned({ ...asked, force: true }), conflicts: [] } : first;
  if (!force && done.conflicts.length > 0) {
    const problems = done.conflicts.map((c) => ({
      message: `conflict with "${c.manager}" using beige.dev/v1`,
      path: `/${c.path.replaceAll(".", "/")}`,
      object: `${ref.kind}/${ref.name}`,
    }));
    const text = done.conflicts.map((c) => `${c.path} is owned by ${c.manager}`).join("; ");
    throw new BeigeError("conflict", `${refName(ref)}: ${text}`, { problems, hint: "force the write to take the fields" });
  }
  const { labels, annotations } = done.merged.metadata;
  const noted = withLastApplied(annotations, { manager, applied: value });
  const metadata = { ...(labels === undefined ? {} : { labels }), ...(noted === undefined ? {} : { annotations: noted }) };
  return { spec: normaliseSpec(ref.kind, done.merged.spec, schemas), ...metadata, managedFields: done.managedFields };
}

function checked(deps: StageDeps, { before, after }: Changed, old: readonly Problem[]): readonly string[] {
  const { language } = deps;
  const view = overlaid(deps.view(), { put: [{ object: after }], removed: [] });
  const { refused, kept } = checkTogether(
    language,
    { ...(before === undefined ? {} : { before }), after, old },
    { before: deps.view(), after: view },
  );
  if (refused.length > 0) refuse(refused, refOf(after));
  // A reference may come to life later: the object waits for it.
  const unknown = unknownReferences([after], language.needs, (to) => view.get(to) !== undefined).map((p) => p.message);
  return [...new Set([...[...old, ...kept].map(keptText), ...unknown])];
}

function refuseVariables(deps: StageDeps, { by, ref }: WriteRequest, change: Changed): void {
  const problems = variableProblems(deps.language, by, change);
  if (problems.length > 0) refuse(problems, ref);
}

function prepare(deps: StageDeps, request: WriteRequest): Prepared {
  const { ref, op } = request;
  const kind = deps.language.kind(ref.kind);
  const before = deps.store.objects.get(ref);
  if (op === "create" && before !== undefined) {
    throw new BeigeError("conflict", `${refName(ref)} already exists`, { hint: "update it, or apply" });
  }
  if (op === "update" && before === undefined) throw notFound(ref);
  const { value, from } = wantedValue(request, before);
  // An apply names just the fields that its manager wants: it is whole together with what is there.
  const partial = op === "apply" && before !== undefined;
  const whole = checkIdentity(partial ? mergePatch(userPart(before), value) : value, ref, deps, before);
  const content = contentOf(deps, request, value, from);
  const old = partial ? checkIdentity(userPart(changedObject(before, content, false)), ref, deps, before) : whole;
  if (!request.force) refuseTaking(ref, before?.metadata.managedFields ?? [], content.managedFields);
  if (before === undefined) {
    const birth = {
      uid: birthUid(ref, content, { taken: () => deps.store.objects.list(), uuid: () => deps.random.uuid() }),
      now: deps.clock.now(),
      ...(kind.finalizer === undefined ? {} : { finalizer: kind.finalizer }),
    };
    const after = newObject(ref, content, birth);
    refuseVariables(deps, request, { after });
    return { after, warnings: checked(deps, { after }, []) };
  }
  const after = changedObject(before, content, sameSpec(ref.kind, before.spec, content.spec, deps.language.schemas));
  if (after.metadata.generation !== before.metadata.generation && before.metadata.deletionTimestamp !== undefined) throw beingDeleted(ref);
  refuseVariables(deps, request, { before, after });
  return { before, after, warnings: checked(deps, { before, after }, old) };
}

type Written = Awaited<ReturnType<Control["write"]>>;

function writeNow(deps: StageDeps, request: WriteRequest): Written & { readonly changed: boolean } {
  const { before, after, warnings } = prepare(deps, request);
  const created = before === undefined;
  if (before !== undefined && sameObject(before, after)) return { object: before, created: false, warnings, changed: false };
  if (request.dryRun) return { object: after, created, warnings, changed: false };
  const revision = { manager: request.manager, fields: changedPaths(before, after) };
  deps.store.objects.write([{ type: "put", object: after, revision }], "full");
  return { object: deps.store.objects.get(request.ref) ?? after, created, warnings, changed: true };
}

/** A dry run answers the object as it would be, with the resourceVersion that it has. */
export async function write(deps: StageDeps & { readonly world: World }, request: WriteRequest): Promise<Written> {
  const { by, ref, manager } = request;
  const { changed, ...written } = request.dryRun
    ? writeNow(deps, request)
    : await deps.store.objects.together(() => writeNow(deps, request));
  if (changed) await recordDeed(deps.world, by, { verb: written.created ? "create" : "update", refs: [ref], manager });
  return written;
}
