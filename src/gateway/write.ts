// Writes a whole file inside the sandbox: all of it or nothing, its mode kept.
import { type Inside, pathInside, runGuest, success, type ToolOutcome } from "./inside.ts";

export interface WriteParams {
  readonly path: string;
  readonly content: string;
}

/** Largest file that write and patch make, in bytes. */
export const FILE_BYTES_MAX = 16 * 1024 * 1024;

/** Undefined when it is written. The size is said, so that a cut stream leaves the old file. */
export function put(inside: Inside, path: string, data: Uint8Array, signal: AbortSignal): Promise<ToolOutcome | undefined> {
  const args = ["put", "--max", String(FILE_BYTES_MAX), "--size", String(data.length), "--", pathInside(path)];
  return runGuest(inside, { args, stdin: data }, signal);
}

export async function write(inside: Inside, params: WriteParams, signal: AbortSignal): Promise<ToolOutcome> {
  const data = Buffer.from(params.content, "utf8");
  const failed = await put(inside, params.path, data, signal);
  return failed ?? success(`wrote ${data.length} bytes to ${params.path}`);
}
