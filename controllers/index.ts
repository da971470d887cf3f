// The one list of kinds, in the order in which they refer to each other.
import type { AnyKind } from "../src/core/kind.ts";
import { agentKind } from "./agent/index.ts";
import { pluginKind } from "./plugin/index.ts";
import { providerKind } from "./provider/index.ts";
import { scheduleKind } from "./schedule/index.ts";
import { sourceKind } from "./source/index.ts";

export const kinds: readonly AnyKind[] = [providerKind, pluginKind, agentKind, scheduleKind, sourceKind];
