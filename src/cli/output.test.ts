import { expect, test } from "vitest";
import { createOutput, type Streams } from "./output.ts";

function noting(color: "always" | "never", text: (paint: (word: string) => string) => string): string {
  let said = "";
  const stream = { isTTY: true, columns: 80, on: () => stream, write: (part: string) => ((said += part), true) };
  const streams = { stdout: stream, stderr: stream, isTerminal: () => true } as unknown as Streams;
  const out = createOutput(streams, { LANG: "C.UTF-8", TERM: "xterm" }, { color, gone: () => undefined });
  out.note(text((word) => out.paint("red", word)));
  return said;
}
const HOSTILE = "a\u001b[2J\u001b]0;title\u0007b\u009b31mc\u202ed\u001b\rlast\u001b[1;1Hx\u001b";

test("a note shows others' words without what moves a cursor or sets a title, and our own colours with them", () => {
  expect(noting("never", () => HOSTILE)).toBe("a[2J]0;titleb31mcdlast[1;1Hx\n");
  expect(noting("always", (red) => `${red("error:")} ${HOSTILE}\nnext\tline`)).toBe(
    "\u001b[31merror:\u001b[39m a[2J]0;titleb31mcdlast[1;1Hx\nnext\tline\n",
  );
});
