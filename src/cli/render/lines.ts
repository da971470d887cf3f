// The changed lines between two texts, as a small unified diff without context.

export interface TextDiff {
  /** Lines removed or added, the greater of the two a block. */
  readonly changed: number;
  readonly lines: readonly string[];
}

const LINES_MAX = 2000;
const SHOWN_MAX = 40;

/** Longest common subsequence by rows; both sides are at most LINES_MAX lines after trimming what is equal. */
function lcs(a: readonly string[], b: readonly string[]): Uint16Array[] {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = table[i] as Uint16Array;
      const below = table[i + 1] as Uint16Array;
      row[j] = a[i] === b[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  return table;
}

interface Block {
  readonly at: readonly [number, number];
  readonly removed: string[];
  readonly added: string[];
}

function blocks(a: readonly string[], b: readonly string[], skip: number): Block[] {
  const table = a.length <= LINES_MAX && b.length <= LINES_MAX ? lcs(a, b) : undefined;
  if (!table) return [{ at: [skip + 1, skip + 1], removed: [...a], added: [...b] }];
  const found: Block[] = [];
  let i = 0;
  let j = 0;
  let open: Block | undefined;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      open = undefined;
      i++;
      j++;
      continue;
    }
    if (!open) found.push((open = { at: [skip + i + 1, skip + j + 1], removed: [], added: [] }));
    if (j >= b.length || (i < a.length && (table[i + 1]?.[j] ?? 0) >= (table[i]?.[j + 1] ?? 0))) open.removed.push(a[i++] ?? "");
    else open.added.push(b[j++] ?? "");
  }
  return found;
}

export function textDiff(before: string, after: string): TextDiff {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const found = blocks(a.slice(head, a.length - tail), b.slice(head, b.length - tail), head);
  const lines = found.flatMap((block) => [
    `@@ -${block.at[0]} +${block.at[1]} @@`,
    ...block.removed.map((line) => `-${line}`),
    ...block.added.map((line) => `+${line}`),
  ]);
  const changed = found.reduce((sum, block) => sum + Math.max(block.removed.length, block.added.length), 0);
  const cut = lines.length > SHOWN_MAX ? [...lines.slice(0, SHOWN_MAX), `… ${lines.length - SHOWN_MAX} more`] : lines;
  return { changed, lines: cut };
}
