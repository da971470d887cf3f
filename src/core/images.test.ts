import fc from "fast-check";
import { expect, test } from "vitest";
import { gif, jpeg, png, webp } from "../../test/fakes/pictures.ts";
import type { ImagePart, Message } from "./chat.ts";
import { checkImages, imageKind, IMAGES_CHARS_MAX, IMAGES_MAX, resultContent, withNewestImages } from "./images.ts";

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
    expect(() => checkImages([image(kind, head)])).toThrow(`images[0]: it begins as ${kind} and is not whole`);
  }
  for (const [kind, bytes] of [
    ["image/png", png()],
    ["image/jpeg", jpeg()],
    ["image/gif", gif()],
    ["image/webp", webp()],
  ] as const)
    expect(() => checkImages([image(kind, bytes.toString("latin1"))])).not.toThrow();
  expect(imageKind(Buffer.from("<svg onload=x>"))).toBeUndefined();
  fc.assert(fc.property(fc.uint8Array({ maxLength: 3 }), (bytes) => imageKind(bytes) === undefined || bytes.length === 3));
});

test.each([
  [[image("image/png", HEADS["image/gif"])], "images[0]: the data is image/gif, not image/png"],
  [[image("image/svg+xml", "<svg>")], 'images[0]: "image/svg+xml" is none of'],
  [[image("image/png", "MZ\x90")], "images[0]: the data is no image"],
  [[{ ...image("image/png", HEADS["image/png"]), data: "iVBORw0KGgo=\n" }], "images[0]: data must be base64"],
  [[{ ...image("image/png", HEADS["image/png"]), data: "" }], "images[0]: data must be base64"],
  [[image("image/png", png(8_001, 1).toString("latin1"))], "images[0]: it has 8001 x 1 pixels"],
  [[image("image/gif", gif().toString("latin1")), image("image/png", png().subarray(0, -8).toString("latin1"))], "images[1]: it begins as"],
  [Array.from({ length: IMAGES_MAX + 1 }, () => image("image/png", HEADS["image/png"])), `at most ${IMAGES_MAX}`],
  [[image("image/png", HEADS["image/png"], IMAGES_CHARS_MAX)], "together they are longer than 7 MiB"],
])("images that cannot be taken are named (%#)", (images, why) => {
  expect(() => checkImages(images)).toThrow(why);
});

test("a request has the newest twenty pictures within its size, and words for the older ones", () => {
  const shown = (at: number, chars = 4): Message => ({
    role: "toolResult",
    toolCallId: String(at),
    toolName: "read",
    content: [
      { type: "text", text: String(at) },
      { type: "image", mimeType: "image/png", data: "A".repeat(chars) },
    ],
    isError: false,
    timestamp: at,
  });
  const kinds = (messages: readonly Message[]): readonly unknown[] =>
    messages.map(({ content }) => (typeof content === "string" ? content : content.at(-1)?.type));
  const many = Array.from({ length: 22 }, (_, at) => shown(at));
  expect(kinds(withNewestImages(many, 1000))).toEqual(["text", "text", ...Array.from({ length: 20 }, () => "image")]);
  const said: Message = { role: "user", content: "and", timestamp: 1 };
  const sized = [shown(1, 40), said, shown(2, 40), shown(3, 60)];
  expect(kinds(withNewestImages(sized, 100))).toEqual(["text", "and", "image", "image"]);
  expect(withNewestImages([said], 0)[0]).toBe(said);
});

test("a tool's pictures go to a model that reads them, and words to others", () => {
  const answer = { text: "a picture", images: [image("image/png", HEADS["image/png"])] };
  expect(resultContent(answer, ["text", "image"])).toEqual([{ type: "text", text: "a picture" }, ...answer.images]);
  expect(resultContent(answer, ["text"])).toEqual([{ type: "text", text: "a picture\n[not shown: this model reads no images]" }]);
  expect(resultContent({ text: "x" }, [])).toEqual([{ type: "text", text: "x" }]);
});
