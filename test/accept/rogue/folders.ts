// Manifests that would widen what an agent can reach.
import type { Ground } from "./ground.ts";
export async function folders(_ground: Ground): Promise<string> {
  return "later";
}
