import fc from "fast-check";
import { expect, test } from "vitest";
import type { ImagePart } from "./chat.ts";
import { checkImages, imageKind, IMAGES_CHARS_MAX, IMAGES_MAX } from "./images.ts";

const HEADS = {
  "image/png": "\x89PNG\r\n\x1a\n1234",
  "image/jpeg": "\xff\xd8\xff\xe0123456789",
  "image/gif": "GIF89a123456",
  "image/webp": "RIFF1234WEBPVP8 ",
} as const;
const image = (mimeType: string, head: string, more = 0): ImagePart => ({
  type: "image",
  mimeType,
  data: Buffer.concat([Buffer.from(head, "latin1"), Buffer.alloc(more)]).toString("base64"),
});

test("an image is what its first bytes say, and nothing else is one", () => {
  for (const [kind, head] of Object.entries(HEADS)) {
    expect(imageKind(Buffer.from(head, "latin1"))).toBe(kind);
    expect(() => checkImages([image(kind, head)])).not.toThrow();
  }
  expect(imageKind(Buffer.from("<svg onload=x>"))).toBeUndefined();
  fc.assert(fc.property(fc.uint8Array({ maxLength: 3 }), (bytes) => imageKind(bytes) === undefined || bytes.length === 3));
});

test.each([
  [[image("image/png", HEADS["image/gif"])], "images[0]: the data is image/gif, not image/png"],
  [[image("image/svg+xml", "<svg>")], 'images[0]: "image/svg+xml" is none of'],
  [[image("image/png", "MZ\x90")], "images[0]: the data is no image"],
  [[{ ...image("image/png", HEADS["image/png"]), data: "iVBORw0KGgo=\n" }], "images[0]: data must be base64"],
  [[{ ...image("image/png", HEADS["image/png"]), data: "" }], "images[0]: data must be base64"],
  [Array.from({ length: IMAGES_MAX + 1 }, () => image("image/png", HEADS["image/png"])), `at most ${IMAGES_MAX}`],
  [[image("image/png", HEADS["image/png"], IMAGES_CHARS_MAX)], "together they are longer than 7 MiB"],
])("images that cannot be taken are named (%#)", (images, why) => {
  expect(() => checkImages(images)).toThrow(why);
});
