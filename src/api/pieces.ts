// JSON text of a large answer in pieces, so that writing it does not hold the event loop.

/** Longest lists that are made at one go. */
const ITEMS = 250;
/** Lists that lie deeper are made at one go. */
const DEPTH = 3;

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value) && value.length > ITEMS;

function hasLong(value: unknown, depth: number): boolean {
  if (isList(value)) return true;
  return isPlain(value) && depth > 0 && Object.values(value).some((member) => hasLong(member, depth - 1));
}

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !("toJSON" in value);

/** The pieces put together are just what JSON.stringify makes of the value. */
export function* jsonPieces(value: unknown, depth = DEPTH): Generator<string> {
  if (isList(value)) yield* listPieces(value);
  else if (isPlain(value) && hasLong(value, depth)) yield* memberPieces(value, depth);
  else yield JSON.stringify(value);
}

function* listPieces(list: readonly unknown[]): Generator<string> {
  for (let from = 0; from < list.length; from += ITEMS) {
    const inner = JSON.stringify(list.slice(from, from + ITEMS)).slice(1, -1);
    yield `${from === 0 ? "[" : ","}${inner}`;
  }
  yield "]";
}

function* memberPieces(object: Readonly<Record<string, unknown>>, depth: number): Generator<string> {
  let before = "{";
  for (const [key, member] of Object.entries(object)) {
    // What JSON has no word for is left out.
    if (member === undefined || typeof member === "function" || typeof member === "symbol") continue;
    yield `${before}${JSON.stringify(key)}:`;
    before = ",";
    yield* jsonPieces(member, depth - 1);
  }
  yield before === "{" ? "{}" : "}";
}
