import fc from "fast-check";
import { expect, test } from "vitest";
import { replaceInFile } from "./replace.ts";

const run = (file: string | Buffer, find: string, replace: string, all = false): ReturnType<typeof replaceInFile> =>
  replaceInFile(Buffer.from(file as string), { find, replace, all });
const text = (file: string, find: string, replace: string, all = false): string => {
  const done = run(file, find, replace, all);
  return done.ok ? done.data.toString("utf8") : `error: ${done.error}`;
};

test("CRLF stays CRLF, also where the model writes LF (P79)", () => {
  expect(text("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz")).toBe("x\r\ny\r\nz\r\nc\r\n");
  expect(text("a\r\nb\r\nc\r\n", "b", "x\ny")).toBe("a\r\nx\r\ny\r\nc\r\n");
});

test("in a file with mixed endings each place keeps its own", () => {
  const mixed = "one\r\ntwo\nthree\r\nfour\n";
  expect(text(mixed, "two", "2a\n2b")).toBe("one\r\n2a\n2b\nthree\r\nfour\n");
  expect(text(mixed, "three\nfour", "3\n4")).toBe("one\r\ntwo\n3\r\n4\n");
});

test("a BOM, trailing spaces and a missing final newline stay (P79)", () => {
  expect(text("\uFEFFa  \nb", "a", "x")).toBe("\uFEFFx  \nb");
  expect(text("a\nb", "b", "c")).toBe("a\nc");
  expect(text("a \nb\n", "a \nb", "a\nb")).toBe("a\nb\n");
});

test("bytes that are no UTF-8 stay as they are", () => {
  const file = Buffer.concat([Buffer.from([0xff, 0xe9, 10]), Buffer.from("name: a\n"), Buffer.from([0x80, 10])]);
  const done = replaceInFile(file, { find: "name: a", replace: "name: ö", all: false });
  expect(
    done.ok && done.data.equals(Buffer.concat([Buffer.from([0xff, 0xe9, 10]), Buffer.from("name: ö\n"), Buffer.from([0x80, 10])])),
  ).toBe(true);
});

test("more than one match is an error with line numbers, unless all are meant (P79)", () => {
  expect(text("a\nb\na\n", "a", "x")).toBe("error: find is in the file 2 times, at lines 1, 3; make it longer, or say all: true");
  expect(text("aaa", "aa", "x")).toContain("2 times");
  expect(text("a\nb\na\n", "a", "x", true)).toBe("x\nb\nx\n");
  expect(text("aaa", "aa", "x", true)).toBe("xa");
});

test("what is not there is an error that names the nearest line", () => {
  expect(text("a\n  if (x)  {\nb\n", "if (x) {", "y")).toContain("nearest is line 2 (its white space");
  expect(text("Hello\n", "hello", "y")).toContain("nearest is line 1 (its upper and lower case");
  expect(text("a\n", "zzz", "y")).toBe("error: find is not in the file");
});

test("special characters are text: in what is sought, and in what takes its place", () => {
  expect(text("a.b\r\n$1(x)\r\n", "a.b\n$1(x)", "$& $1 \\n")).toBe("$& $1 \\n\r\n");
});

test("a binary file, an empty and an equal text are refused", () => {
  expect(run(Buffer.from([97, 0, 98]), "a", "b")).toMatchObject({ ok: false, error: expect.stringContaining("binary") });
  expect(run("a", "", "b").ok).toBe(false);
  expect(run("a", "a", "a").ok).toBe(false);
});

test("bytes outside of the one match are identical, for any file", () => {
  const piece = fc.oneof(fc.constantFrom("\r\n", "\n", "\r", "x", " "), fc.string({ unit: "binary", maxLength: 8 }));
  const file = fc.array(piece, { maxLength: 20 }).map((parts) => parts.join("").replaceAll("\0", "_").replaceAll("@@", "@"));
  fc.assert(
    fc.property(file, file, (before, behind) => {
      const done = run(`${before}@@MARK@@${behind}`, "@@MARK@@", "@@done");
      if (!done.ok) return expect(done.error).toContain("times");
      expect(done.data.equals(Buffer.from(`${before}@@done${behind}`))).toBe(true);
    }),
  );
});
