// Small durable state of the gateway by key.
import type { Shelf } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";

/** The key after all keys with this prefix; undefined when there is none. */
function after(prefix: string): string | undefined {
  const points = Array.from(prefix, (letter) => letter.codePointAt(0) ?? 0);
  for (;;) {
    const last = points.pop();
    if (last === undefined) return undefined;
    // Surrogates are no characters of their own.
    if (last < 0x10ffff) return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
  }
}

export function createShelf(connection: Connection): Shelf {
  const { full, quick } = connection;
  const sql = "INSERT INTO shelf VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
  const set = { full: full.prepare(sql), quick: quick.prepare(sql) };
  const get = quick.prepare("SELECT value FROM shelf WHERE key = ?");
  const drop = quick.prepare("DELETE FROM shelf WHERE key = ?");
  const below = quick.prepare("SELECT key, value FROM shelf WHERE key >= ? AND key < ? ORDER BY key");
  const from = quick.prepare("SELECT key, value FROM shelf WHERE key >= ? ORDER BY key");
  return {
    get: (key) => get.get(key)?.["value"] as string | undefined,
    set(key, value, durable) {
      const on = durable === true ? "full" : "quick";
      transact(connection[on], () => set[on].run(key, value));
    },
    delete(key) {
      transact(quick, () => drop.run(key));
    },
    list(prefix) {
      const end = after(prefix);
      const rows = end === undefined ? from.all(prefix) : below.all(prefix, end);
      return rows.map((row) => ({ key: String(row["key"]), value: String(row["value"]) }));
    },
  };
}
