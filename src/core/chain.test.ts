import fc from "fast-check";
import { expect, test } from "vitest";
import { chainSegments, EMPTY, openRow, parseAnchor, printAnchor, sealRow, segmentName, verifyChain } from "./chain.ts";

function chain(count: number): { readonly text: string; readonly heads: readonly { seq: number; hash: string }[] } {
  let head = EMPTY;
  const lines: string[] = [];
  const heads = [head];
  for (let at = 0; at < count; at += 1) {
    const row = { ts: "2026-01-01T00:00:00.000Z", call: `c${at >> 1}`, phase: at % 2 === 0 ? "begin" : "end" } as const;
    const sealed = sealRow(head, {
      ...row,
      agent: "travel",
      type: "core_tool",
      tool: "exec",
      args: [`echo "${at}" ü \ud800`],
      decision: "allowed",
    });
    head = sealed.head;
    heads.push(head);
    lines.push(sealed.line);
  }
  return { text: lines.join(""), heads };
}

test("a whole chain verifies, in chunks of any size", async () => {
  const { text, heads } = chain(20);
  const bytes = Buffer.from(text);
  for (const step of [1, 7, 4_096]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) => bytes.subarray(at * step, (at + 1) * step));
    expect(await verifyChain(chunks)).toEqual({ ok: true, rows: 20, head: heads[20], open: 0 });
  }
});

test("an empty chain verifies", async () => {
  expect(await verifyChain([])).toEqual({ ok: true, rows: 0, head: EMPTY, open: 0 });
});

test("any one changed byte is found", async () => {
  const bytes = Buffer.from(chain(6).text);
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: bytes.length - 1 }), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ flip;
      expect((await verifyChain([changed])).ok).toBe(false);
    }),
    { numRuns: 400 },
  );
});

test("a removed, a doubled and a swapped row are found, with their line", async () => {
  const lines = chain(6).text.trimEnd().split("\n");
  const of = (picked: readonly number[]): Promise<unknown> => verifyChain([picked.map((at) => `${lines[at]}\n`).join("")]);
  expect(await of([0, 1, 3, 4, 5])).toMatchObject({ ok: false, line: 3 });
  expect(await of([0, 1, 1, 2, 3])).toMatchObject({ ok: false, line: 3 });
  expect(await of([1, 0, 2, 3, 4])).toMatchObject({ ok: false, line: 1 });
});

test("a cut tail is found with an anchor only", async () => {
  const { text, heads } = chain(10);
  const cut = `${text.split("\n").slice(0, 6).join("\n")}\n`;
  expect((await verifyChain([cut])).ok).toBe(true);
  expect(await verifyChain([cut], heads[10])).toMatchObject({ ok: false, problem: expect.stringContaining("tail was cut") });
  expect((await verifyChain([text], heads[4])).ok).toBe(true);
  const other = parseAnchor(`4:${"a".repeat(64)}`);
  expect(await verifyChain([text], other)).toMatchObject({ ok: false, line: 4 });
});

test("a torn last line and a line without end are found", async () => {
  const { text } = chain(3);
  expect(await verifyChain([text.slice(0, -10)])).toMatchObject({ ok: false, line: 3 });
  expect(await verifyChain([text, Buffer.alloc(3 * 1024 * 1024, 120)])).toMatchObject({ ok: false });
});

test("calls that have no outcome are counted", async () => {
  expect(await verifyChain([chain(5).text])).toMatchObject({ ok: true, open: 1 });
});

test("anchors print and parse", () => {
  const { heads } = chain(3);
  expect(parseAnchor(printAnchor(heads[3] ?? EMPTY))).toEqual(heads[3]);
  for (const bad of ["", "3", "x:y", `3:${"g".repeat(64)}`]) expect(parseAnchor(bad)).toBeUndefined();
});

test("segments sort by age and strangers are left out", () => {
  const names = [
    "audit.jsonl",
    segmentName("audit.jsonl", 200),
    "audit-note.txt",
    segmentName("audit.jsonl", 30),
    "control.jsonl",
    "audit-2.jsonl",
  ];
  expect(chainSegments(names, "audit.jsonl")).toEqual(["audit-000000000000030.jsonl", "audit-000000000000200.jsonl", "audit.jsonl"]);
});

test("a line that is no row is not taken for one", () => {
  for (const line of ["", "{}", "null", '{"seq":1}', `{"x":1,"hash":"${"0".repeat(64)}"}`]) expect(openRow(line)).toBeUndefined();
});
