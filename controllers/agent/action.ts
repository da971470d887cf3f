// What can be done to an agent's world: each with all that `act` needs, and the sentence for plans and events. Pure.
import type { AgentId } from "../../src/core/call.ts";
import type { Action, FieldChange } from "../../src/core/kind.ts";
import type { ImageBuild } from "../../src/core/sandbox.ts";
import type { WarmClaim } from "../../src/core/seat.ts";
import type { Kit } from "../../src/core/world.ts";
import { shortId } from "./seen.ts";
import type { Box, Limits } from "./box.ts";

/** A host path and what it was when it was checked. */
export interface Place {
  readonly path: string;
  readonly real: string;
  readonly what: "workspace" | "mount";
}

/** Names a container: by id, or by its exact name among this agent's when it is made in the same pass. */
export type Which = { readonly id: string } | { readonly name: string };

type Do =
  | { readonly type: "workspace"; readonly agent: AgentId; readonly path: string; readonly own: boolean; readonly shared: boolean }
  | { readonly type: "kit"; readonly agent: AgentId; readonly kit: Kit }
  | { readonly type: "socket"; readonly agent: AgentId }
  | {
      readonly type: "create";
      readonly agent: AgentId;
      readonly box: Box;
      readonly places: readonly Place[];
      /** Another agent's user may own the workspace. */
      readonly shared: boolean;
      /** Set in a replacement: a refusal of the engine is remembered under this key. */
      readonly replacing?: string;
    }
  | { readonly type: "start"; readonly agent: AgentId; readonly which: Which; readonly replacing?: string }
  | { readonly type: "stop" | "unpause" | "remove"; readonly id: string }
  | { readonly type: "rename"; readonly id: string; readonly name: string }
  | { readonly type: "limits"; readonly id: string; readonly limits: Limits }
  | { readonly type: "begin"; readonly uid: string; readonly key: string }
  | { readonly type: "fail"; readonly uid: string; readonly key: string; readonly message: string }
  | { readonly type: "settle"; readonly uid: string }
  | { readonly type: "serve"; readonly uid: string; readonly id: string; readonly cut: boolean }
  | { readonly type: "end-sessions" | "cut"; readonly uid: string; readonly because: string }
  | { readonly type: "hold"; readonly uid: string; readonly limitMs: number }
  | { readonly type: "admit"; readonly uid: string }
  | { readonly type: "adopt"; readonly uid: string; readonly id: string; readonly user: { readonly uid: number; readonly gid: number } }
  | { readonly type: "claim"; readonly claim: WarmClaim }
  | { readonly type: "leave"; readonly agent: AgentId }
  | { readonly type: "close"; readonly uid: string }
  | { readonly type: "kit-remove"; readonly agent: AgentId }
  | { readonly type: "workspace-remove"; readonly path: string; readonly real: string }
  | { readonly type: "clean"; readonly uid: string; readonly mark: boolean }
  | { readonly type: "image-build"; readonly build: ImageBuild }
  | { readonly type: "image-finish" | "image-drop"; readonly ref: string };

export type AgentAction = Action & Do;

/** The words that a step takes from the plan around it. */
export interface Cause {
  readonly impact: Action["impact"];
  readonly why: Action["why"];
  readonly fields?: readonly FieldChange[];
}

export const SPEC: Cause = { impact: "live", why: "spec" };
export const DELETE: Cause = { impact: "delete", why: "delete" };

export function step(cause: Cause, summary: string, what: Do): AgentAction {
  return { impact: cause.impact, why: cause.why, ...(cause.fields === undefined ? {} : { fields: cause.fields }), summary, ...what };
}

/** Bookkeeping: no event of its own. */
export const quietly = (cause: Cause, summary: string, what: Do): AgentAction => ({ ...step(cause, summary, what), quiet: true });

export const removeBox = (cause: Cause, id: string, name: string): AgentAction =>
  step(cause, `remove container ${name} (${shortId(id)})`, { type: "remove", id });
