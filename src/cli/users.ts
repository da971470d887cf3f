// Who uses what is about to go: agents their provider and plugins, schedules their agent.
import { refName, type Resource } from "../core/resource.ts";
import type { Client } from "./client.ts";
import { KINDS, pathOf, refOfTarget, type Target } from "./names.ts";
import { usesOf } from "./verbs/tree.ts";

/** How long a warning may take to find. */
const IDLE_MS = 5_000;
const USERS: Readonly<Record<string, string>> = { Provider: "Agent", Plugin: "Agent", Agent: "Schedule" };

/** Names of the objects that use the target; none where that cannot be found out. */
export async function usersOf(client: Client, target: Target): Promise<readonly string[]> {
  const kind = KINDS.find((each) => each.kind === USERS[target.kind.kind]);
  if (kind === undefined) return [];
  const get = <T>(path: string): Promise<T> => client.get<T>({ path, idleMs: IDLE_MS });
  const ref = refOfTarget(target);
  try {
    const { items } = await get<{ readonly items: readonly Resource[] }>(pathOf({ kind, namespace: "" }, true));
    // What a plugin brings is in its own status.
    const plugins = ref.kind === "Plugin" && items.length > 0 ? [await get<Resource>(pathOf(target))] : [];
    const uses = (user: Resource): boolean =>
      ref.kind === "Agent"
        ? user.metadata.namespace === ref.namespace && (user.spec as { readonly agent?: string }).agent === ref.name
        : usesOf(user, plugins).includes(refName(ref));
    return items.filter(uses).map(({ metadata }) => refName({ kind: kind.kind, namespace: metadata.namespace ?? "", name: metadata.name }));
  } catch {
    return [];
  }
}
