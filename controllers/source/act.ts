// Does what the plan of a Source says: watches its folder, stores a revision, gives up what it holds.
import type { World } from "../../src/core/world.ts";
import type { SourceAction } from "./seen.ts";

export async function actSource(w: World, action: SourceAction): Promise<void> {
  switch (action.type) {
    case "watch":
      w.trees.watch(action.name, action.path, action.place);
      return undefined;
    case "unwatch":
      w.trees.unwatch(action.name);
      return undefined;
    case "apply":
      return w.stacks.apply(action.request);
    case "release":
      return w.stacks.release(action.name, { delete: action.delete });
  }
}
