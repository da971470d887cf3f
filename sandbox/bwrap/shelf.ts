// This backend's own part of the gateway's small state, so that no other backend takes its commands for its own.
import type { Shelf } from "../../src/core/world.ts";

const PREFIX = "bwrap/";

export const bwrapShelf = (shelf: Shelf): Shelf => ({
  get: (key) => shelf.get(PREFIX + key),
  set: (key, value, durable) => shelf.set(PREFIX + key, value, durable),
  delete: (key) => shelf.delete(PREFIX + key),
  list: (prefix) => shelf.list(PREFIX + prefix).map(({ key, value }) => ({ key: key.slice(PREFIX.length), value })),
});
