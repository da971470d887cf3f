// Finds and replaces text in a file inside the sandbox.
import { type Replacement, replaceInFile } from "../core/replace.ts";
import { failure, type Inside, pathInside, runGuest, success, type ToolOutcome } from "./inside.ts";
import { FILE_BYTES_MAX, put } from "./write.ts";

export interface PatchParams extends Replacement {
  readonly path: string;
}

export async function patch(inside: Inside, params: PatchParams, signal: AbortSignal): Promise<ToolOutcome> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const take = (data: Uint8Array): boolean => {
    parts.push(Buffer.from(data));
    size += data.length;
    return size <= FILE_BYTES_MAX;
  };
  const args = ["cat", "--max", String(FILE_BYTES_MAX), "--", pathInside(params.path)];
  const unread = await runGuest(inside, { args, take }, signal);
  if (unread !== undefined) return unread;
  if (size > FILE_BYTES_MAX) return failure(`${params.path} is larger than ${FILE_BYTES_MAX} bytes`);
  const replaced = replaceInFile(Buffer.concat(parts), params);
  if (!replaced.ok) return failure(`${params.path}: ${replaced.error}`);
  const unwritten = await put(inside, params.path, replaced.data, signal);
  const places = replaced.lines.length === 1 ? `line ${replaced.lines[0]}` : `lines ${replaced.lines.join(", ")}`;
  return unwritten ?? success(`patched ${params.path} at ${places}`);
}
