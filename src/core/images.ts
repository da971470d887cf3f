// Images that come with a message: few, not too large, and of the kinds that models read. Pure.
import type { ImagePart, Message, TextPart } from "./chat.ts";
import { BeigeError } from "./errors.ts";
import { pictureFault } from "./picture.ts";

export const IMAGES_MAX = 10;
/** Of all images of one message, as base64: less than a request may have. */
export const IMAGES_CHARS_MAX = 7 * 1024 * 1024;
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
type Kind = (typeof KINDS)[number];

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const bad = (where: string, why: string): BeigeError =>
  new BeigeError("invalid", `${where}: ${why}`, { hint: '{"mimeType": "image/png", "data": "BASE64"}' });

/** What the first bytes say that it is; names of files and of types may say anything. */
export function imageKind(bytes: Uint8Array): Kind | undefined {
  const text = String.fromCharCode(...bytes.subarray(0, 12));
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (text.startsWith("GIF87a") || text.startsWith("GIF89a")) return "image/gif";
  return text.startsWith("RIFF") && text.slice(8) === "WEBP" ? "image/webp" : undefined;
}

/** Throws `invalid` naming the image that cannot be taken. */
export function checkImages(images: readonly ImagePart[], where = "images"): void {
  if (images.length > IMAGES_MAX) throw bad(where, `at most ${IMAGES_MAX} are taken`);
  let chars = 0;
  for (const [at, { mimeType, data }] of images.entries()) {
    const each = `${where}[${at}]`;
    if (!KINDS.some((kind) => kind === mimeType))
      throw bad(each, `${JSON.stringify(mimeType.slice(0, 60))} is none of ${KINDS.join(", ")}`);
    if (data.length % 4 !== 0 || !BASE64.test(data)) throw bad(each, "data must be base64");
    const found = imageKind(Buffer.from(data.slice(0, 24), "base64"));
    if (found !== mimeType) throw bad(each, `the data is ${found ?? "no image"}, not ${mimeType}`);
    chars += data.length;
    if (chars > IMAGES_CHARS_MAX) throw bad(where, `together they are longer than ${IMAGES_CHARS_MAX / 1024 / 1024} MiB as base64`);
    // It would be refused with everything that is said after it.
    const fault = pictureFault(Buffer.from(data, "base64"), found);
    if (fault !== undefined) throw bad(each, fault);
  }
}

/** What a tool answered, for a model: pictures only where it reads them, else the words that name them and why they are missing. */
export function resultContent(
  { text, images = [] }: { readonly text: string; readonly images?: readonly ImagePart[] },
  input: readonly string[],
): (TextPart | ImagePart)[] {
  if (images.length === 0) return [{ type: "text", text }];
  if (!input.includes("image")) return [{ type: "text", text: `${text}\n[not shown: this model reads no images]` }];
  return [{ type: "text", text }, ...images];
}

/** Providers are stricter with each picture of a request that has more. */
const REQUEST_IMAGES_MAX = 20;
/** As base64: less than any provider takes as a request. */
export const REQUEST_CHARS_MAX = 20 * 1024 * 1024;
const OLDER: TextPart = { type: "text", text: "[an older picture, left out: read it again to see it]" };

/** The newest pictures of a conversation, as many as a request takes; the older ones are named in words. */
export function withNewestImages(messages: readonly Message[], maxChars: number): readonly Message[] {
  let [count, chars] = [0, 0];
  const fitting = <P extends { readonly type: string }>(part: P | ImagePart): P | ImagePart | TextPart => {
    if (part.type !== "image") return part;
    count += 1;
    chars += (part as ImagePart).data.length;
    return count <= REQUEST_IMAGES_MAX && chars <= maxChars ? part : OLDER;
  };
  const fit = (message: Message): Message => {
    const { role, content } = message;
    if (role === "assistant" || typeof content === "string" || !content.some(({ type }) => type === "image")) return message;
    return { ...message, content: content.toReversed().map(fitting).toReversed() };
  };
  return messages.toReversed().map(fit).toReversed();
}
