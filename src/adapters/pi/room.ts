// How much of a conversation is pictures: bounded, since its file must be short enough to be taken up again.
import type { SessionManager } from "@mariozechner/pi-coding-agent";
import type { ImagePart, ToolAnswer } from "../../core/chat.ts";
import { BeigeError } from "../../core/errors.ts";

/** As base64: half of the longest file that is read. */
export const PICTURES_CHARS_MAX = 128 * 1024 * 1024;
const FULL = `this conversation holds ${PICTURES_CHARS_MAX / 1024 / 1024} MiB of pictures, and no more are taken`;

const charsOf = (images: readonly ImagePart[]): number => images.reduce((sum, { data }) => sum + data.length, 0);

/** Of its file, also of what was summarised since. */
function held(manager: Pick<SessionManager, "getEntries">): number {
  let chars = 0;
  for (const entry of manager.getEntries()) {
    const content = entry.type === "message" && "content" in entry.message ? entry.message.content : undefined;
    if (Array.isArray(content)) chars += charsOf(content.filter((part): part is ImagePart => part.type === "image"));
  }
  return chars;
}

export type Room = (images: readonly ImagePart[]) => boolean;

export const roomOf =
  (manager: Pick<SessionManager, "getEntries">): Room =>
  (images) =>
    images.length === 0 || held(manager) + charsOf(images) <= PICTURES_CHARS_MAX;

/** A tool's pictures that have no room are named in words. */
export function fitting(answer: ToolAnswer, room: Room): ToolAnswer {
  const { images = [], ...rest } = answer;
  return room(images) ? answer : { ...rest, text: `${rest.text}\n[not shown: ${FULL}]` };
}

/** A person's are refused, before the message is in the conversation. */
export function checkRoom(images: readonly ImagePart[], room: Room): void {
  if (!room(images)) throw new BeigeError("exhausted", FULL, { hint: "start a new session" });
}
