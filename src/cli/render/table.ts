// Columns as kubectl draws them: upper-case headers, three spaces between, no borders, so that cut and awk work.
import { fit } from "./values.ts";

export interface Drawn {
  readonly header: string;
  readonly rows: readonly string[];
  readonly widths: readonly number[];
}

/** Draws rows; `width` cuts lines on a terminal; `least` keeps the widths of an earlier drawing. */
export function drawTable(
  headers: readonly string[],
  rows: readonly (readonly string[])[],
  options: { readonly width?: number; readonly least?: readonly number[]; readonly right?: readonly boolean[] } = {},
): Drawn {
  const widths = headers.map((header, i) => Math.max(header.length, options.least?.[i] ?? 0, ...rows.map((row) => (row[i] ?? "").length)));
  const line = (cells: readonly string[]): string => {
    const padded = headers.map((_, i) => {
      const cell = cells[i] ?? "";
      return options.right?.[i] === true ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0);
    });
    return fit(padded.join("   ").trimEnd(), options.width);
  };
  return { header: line(headers), rows: rows.map(line), widths };
}
