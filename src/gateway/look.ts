// What a file is by its first bytes: text, text of another encoding, a picture, or nothing that could be shown.
import { imageKind } from "../core/images.ts";

export type Look =
  | { readonly kind: "text" }
  | { readonly kind: "utf-16"; readonly label: "utf-16le" | "utf-16be" }
  | { readonly kind: "picture"; readonly mimeType: NonNullable<ReturnType<typeof imageKind>> }
  | { readonly kind: "binary"; readonly what: string };

/** So much of a file is looked at. */
export const LOOK_BYTES = 8 * 1024;

/** A few odd bytes are shown as what they are: odd. */
const ODD_MIN = 4;
const ODD_SHARE = 0.25;
const REPLACED = Buffer.from("\uFFFD");

const count = (bytes: Buffer, word: Buffer): number => {
  let found = 0;
  for (let at = bytes.indexOf(word); at >= 0; at = bytes.indexOf(word, at + word.length)) found += 1;
  return found;
};

/** Backspace to carriage return, and escape, are in texts of terminals. */
const isOdd = (code: number): boolean => code === 0xfffd || (code < 32 && (code < 8 || code > 13) && code !== 27);

/** Holds NUL, or so much that is no UTF-8 or no text that it is none. */
export function isGarbled(bytes: Buffer): boolean {
  if (bytes.includes(0)) return true;
  const text = bytes.toString("utf8");
  let odd = -count(bytes, REPLACED);
  for (let at = 0; at < text.length; at += 1) if (isOdd(text.charCodeAt(at))) odd += 1;
  return odd > ODD_MIN && odd > text.length * ODD_SHARE;
}

/** `head` is the file's beginning: all of it, or LOOK_BYTES. */
export function look(head: Buffer): Look {
  const mimeType = imageKind(head);
  if (mimeType !== undefined) return { kind: "picture", mimeType };
  const mark = head.toString("hex", 0, 4);
  if (mark === "fffe0000" || mark === "0000feff") return { kind: "binary", what: "UTF-32 text" };
  if (mark.startsWith("fffe")) return { kind: "utf-16", label: "utf-16le" };
  if (mark.startsWith("feff")) return { kind: "utf-16", label: "utf-16be" };
  return isGarbled(head) ? { kind: "binary", what: "a binary file" } : { kind: "text" };
}
