// kubectl's way from client-side to server-side apply: what it applied from the client's side before, and nobody has changed since, is its own.
import { canonicalJson } from "../core/fingerprint.ts";
import { sameLeaves, type Conflict, type Owned } from "../core/ownership.ts";
import type { Resource } from "../core/resource.ts";
import { isObject, type Schemas } from "../core/schema.ts";

/** The manager that says so: another name opts out, as with any Kubernetes API server. */
const KUBECTL = "kubectl";
export const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** Kubernetes' own limit on all annotations together. */
const MOST_CHARS = 256 * 1024;

function parsed(text: string): Owned | undefined {
  if (text.length > MOST_CHARS) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whether all that is in the way of a server-side apply was put there by the same person's client-side applies. */
export function ownsThrough(
  { manager, live, schemas }: { readonly manager: string; readonly live: Resource | undefined; readonly schemas: Schemas },
  conflicts: readonly Conflict[],
): boolean {
  const text = live?.metadata.annotations?.[LAST_APPLIED];
  if (manager !== KUBECTL || live === undefined || text === undefined) return false;
  const last = parsed(text);
  const mine = last === undefined ? new Set<string>() : sameLeaves(live.kind, { before: last, after: live, schemas });
  return conflicts.every(({ path }) => mine.has(path));
}

/** Annotations with what was applied last brought up to date, so that a client-side apply that follows starts from the truth. */
export function withLastApplied(
  annotations: Readonly<Record<string, string>> | undefined,
  { manager, applied }: { readonly manager: string; readonly applied: unknown },
): Readonly<Record<string, string>> | undefined {
  if (manager !== KUBECTL || annotations?.[LAST_APPLIED] === undefined || !isObject(applied)) return annotations;
  const { metadata } = applied;
  const given = isObject(metadata) && isObject(metadata["annotations"]) ? metadata["annotations"] : {};
  const { [LAST_APPLIED]: _own, ...others } = given;
  const text = `${canonicalJson({ ...applied, metadata: { ...(isObject(metadata) ? metadata : {}), annotations: others } })}\n`;
  return text.length > MOST_CHARS ? annotations : { ...annotations, [LAST_APPLIED]: text };
}
