import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { openDoor, textOf } from "../../test/fakes/door.ts";
import { gif, jpeg, png, webp } from "../../test/fakes/pictures.ts";
import { isGarbled, look } from "./look.ts";

async function reading(bytes: Uint8Array | string, params: object = {}) {
  await using at = openDoor();
  writeFileSync(at.file("f"), bytes);
  return { result: await at.ask("read", { path: "f", ...params }), rows: at.rows };
}

test.each([
  ["image/png", png(3, 2)],
  ["image/jpeg", jpeg()],
  ["image/gif", gif()],
  ["image/webp", webp()],
])("a picture (%s) is an image block of its exact bytes, whatever its name and whichever lines are asked for", async (mimeType, bytes) => {
  const { result, rows } = await reading(bytes, { offset: 7, limit: 1 });
  expect(textOf(result)).toBe(`[f is a picture: ${mimeType}, ${bytes.length} bytes]`);
  expect(result.images).toEqual([{ type: "image", mimeType, data: bytes.toString("base64") }]);
  expect(rows.at(-1)).toMatchObject({ phase: "end", outcome: "ok", outputBytes: result.output.length + bytes.length });
});

test("a large picture comes whole up to what a message may have, and not at all beyond", async () => {
  const fits = png(1, 1, 5_500_000);
  const { result } = await reading(fits);
  expect(Buffer.from(result.images?.[0]?.data ?? "", "base64").equals(fits)).toBe(true);
  const { result: over } = await reading(png(1, 1, 5_505_024));
  expect(over.images).toBeUndefined();
  expect(textOf(over)).toBe("[f is a picture (image/png) of more than 5505024 bytes: not shown]");
});

test.each([
  ["a cut one", png().subarray(0, 40), "it begins as image/png and is not whole"],
  ["a mere beginning", png().subarray(0, 8), "it begins as image/png and is not whole"],
  ["text that looks like one", Buffer.from("GIF89a is a format of pictures"), "it begins as image/gif and is not whole"],
  ["a cut jpeg", jpeg().subarray(0, 40), "it begins as image/jpeg and is not whole"],
  ["one without pixels", png(0, 5), "it begins as image/png and is not whole"],
  ["a huge one", png(8001, 10), "it has 8001 x 10 pixels, and at most 8000 on a side can be shown"],
])("what no provider would take never gets into a conversation: %s", async (_, bytes, why) => {
  const { result } = await reading(bytes);
  expect(result).toMatchObject({ success: true });
  expect(result.images).toBeUndefined();
  expect(textOf(result)).toBe(`[f is not shown: ${why}]`);
});

test("bytes that are no text are not shown, also without a NUL and behind a beginning of text", async () => {
  const noise = randomBytes(20_000).map((byte) => (byte === 0 ? 1 : byte));
  expect(textOf((await reading(noise)).result)).toBe("[f is a binary file: not shown]");
  expect(textOf((await reading(noise.subarray(0, 300))).result)).toBe("[f is a binary file: not shown]");
  const archive = Buffer.concat([Buffer.from("#!/bin/sh\n# unpacks itself\n".repeat(400)), noise]);
  expect(textOf((await reading(archive)).result)).toBe("[f is a binary file: not shown]");
  expect(textOf((await reading(archive, { limit: 2 })).result)).toContain("# unpacks itself\n");
});

test("a few odd bytes in a text do not hide it, and colours of a terminal are text", async () => {
  const latin = Buffer.from("Grüße aus dem Süden, viele Grüße\n".repeat(20), "latin1");
  const { result } = await reading(latin);
  expect(textOf(result)).toContain("Gr\uFFFD\uFFFDe aus dem S\uFFFDden");
  expect(textOf(result)).toContain("[some bytes are not UTF-8 and are shown as \uFFFD]");
  expect(textOf((await reading("\u001b[31mred\u001b[0m\n")).result)).toBe("\u001b[31mred\u001b[0m\n");
});

test("UTF-16 is shown as UTF-8 and says so, by lines as any text; UTF-32 is named and not shown", async () => {
  const text = "eins\nzwei é 😀\ndrei\n";
  const little = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")]);
  const big = Buffer.from(little).swap16();
  expect(textOf((await reading(little)).result)).toBe(`${text}\n[f is UTF-16LE, shown here as UTF-8]`);
  expect(textOf((await reading(big, { offset: 2, limit: 1 })).result)).toBe(
    "zwei é 😀\n[lines 2-2; more follow: offset 3]\n[f is UTF-16BE, shown here as UTF-8]",
  );
  const long = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from("Zeile\n".repeat(30_000), "utf16le")]);
  expect(textOf((await reading(long, { offset: 29_999 })).result)).toBe("Zeile\nZeile\n\n[f is UTF-16LE, shown here as UTF-8]");
  expect(textOf((await reading(Buffer.from("fffe000041000000", "hex"))).result)).toBe("[f is UTF-32 text: not shown]");
});

test("no text of any language is taken for binary, wherever it is cut", () => {
  const words = fc.string({ unit: fc.oneof(fc.constantFrom("a", "é", "я", "語", "😀", "\n", "\t", "\uFFFD", " ")), maxLength: 3000 });
  fc.assert(
    fc.property(words, fc.nat({ max: 3 }), (text, cut) => {
      const bytes = Buffer.from(text);
      const head = bytes.subarray(0, Math.max(0, bytes.length - cut));
      expect(isGarbled(head)).toBe(false);
      expect(look(head).kind).toBe("text");
    }),
  );
});
