// What the guest says of a command's end, as the port's word for it.
import type { ExecExit } from "../src/core/sandbox.ts";

export function parseExit(json: string): ExecExit {
  try {
    const value = JSON.parse(json) as { kind?: unknown; code?: unknown; signal?: unknown; reason?: unknown };
    if (value.kind === "code" && typeof value.code === "number") return { kind: "code", code: value.code & 255 };
    if (value.kind === "signal" && typeof value.signal === "number") return { kind: "signal", signal: value.signal };
    if (value.kind === "lost" && typeof value.reason === "string") return { kind: "lost", reason: value.reason };
    if (value.kind === "timeout" || value.kind === "cancelled" || value.kind === "oom") return { kind: value.kind };
  } catch {
    // Falls through: what cannot be read is not an exit.
  }
  return { kind: "lost", reason: "the guest's exit could not be read" };
}
