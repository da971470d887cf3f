// The objects that manifests name, for the verbs that take -f but do not apply.
import { BeigeError } from "../core/errors.ts";
import type { Context, Input } from "./flags.ts";
import { findKind, type Target } from "./names.ts";
import { manifestsOf } from "./stack.ts";

export async function manifestTargets(context: Context, input: Input): Promise<readonly Target[]> {
  const files = await manifestsOf(context, input);
  const { refsOf } = await import("./offline.ts");
  const { refs, problems } = refsOf(files);
  if (problems.length > 0) throw new BeigeError("invalid", "these manifests name no objects that could be looked for", { problems });
  const targets: Target[] = [];
  for (const ref of refs) targets.push({ kind: await findKind(context.client, ref.kind), name: ref.name, namespace: ref.namespace });
  return targets;
}
