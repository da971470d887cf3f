// The request to look now: an annotation that `beige reconcile` writes.
import type { Source } from "../../src/core/resource.ts";

export const RECONCILE_AT = "beige.dev/reconcile-at";
const FORCE = " force";

/** `token` is whatever the annotation says; ` force` at its end takes fields of others once. */
export function askedOf(source: Source): { readonly token?: string; readonly force: boolean } {
  const token = source.metadata.annotations?.[RECONCILE_AT];
  return token === undefined ? { force: false } : { token, force: token.endsWith(FORCE) };
}
