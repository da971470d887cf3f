// A turn: one message to an agent and all that follows until it answers. The words that its doors share.
import type { ErrorCode } from "./errors.ts";
import type { AgentId, Principal } from "./call.ts";
import type { ChatFailure, ImagePart, Usage } from "./chat.ts";

export interface TurnRequest {
  readonly principal: Principal;
  readonly agent: AgentId;
  readonly text: string;
  /** Shown with the text; only where the model reads images. */
  readonly images?: readonly ImagePart[];
  /** Id of the request that brought it; one is made where none did. */
  readonly request?: string;
  /** `channel:id[:id]`; cli:default when absent. */
  readonly session?: string;
  /** Starts the session anew. */
  readonly fresh?: boolean;
  /** False: words such as /new are sent to the model like all others. */
  readonly commands?: boolean;
}

export type TurnEvent =
  | { readonly type: "session"; readonly session: string; readonly inbox: string; readonly verbose?: boolean }
  | { readonly type: "text"; readonly delta: string }
  | { readonly type: "thinking"; readonly delta: string }
  | { readonly type: "tool_start"; readonly id: string; readonly tool: string; readonly args: Readonly<Record<string, unknown>> }
  | { readonly type: "tool_end"; readonly id: string; readonly tool: string; readonly failed: boolean; readonly output: string }
  /** A message that was put in while the turn ran is in the conversation now. */
  | { readonly type: "user"; readonly inbox: string; readonly text: string }
  /** The older part of the conversation was summarised; `failed` says why not. */
  | { readonly type: "compaction"; readonly tokens: number; readonly failed?: string }
  | { readonly type: "model"; readonly provider: string; readonly id: string; readonly fallback: boolean }
  | {
      readonly type: "done";
      readonly text: string;
      readonly stop: string;
      readonly provider: string;
      readonly model: string;
      readonly usage: Usage;
    }
  | {
      readonly type: "error";
      readonly code: ErrorCode;
      readonly message: string;
      readonly hint?: string;
      readonly retryAfterMs?: number;
      /** Whose budget is used up. */
      readonly budget?: ChatFailure["budget"];
    };

/** Never throws after its first event; ends with `done` or `error`. Aborting ends the turn, its LLM stream and its commands. */
export type RunTurn = (request: TurnRequest, signal: AbortSignal) => AsyncIterable<TurnEvent>;
