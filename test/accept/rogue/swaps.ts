// A folder that becomes a link after it was checked.
import type { Ground } from "./ground.ts";
export const swaps = async (_ground: Ground): Promise<string> => "later";
