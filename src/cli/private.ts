// Writes a private file whole or not at all: mode 0600 from its first byte, then renamed into place.
import { renameSync, rmSync, writeFileSync } from "node:fs";

export function writePrivate(path: string, text: string): void {
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  writeFileSync(fresh, text, { mode: 0o600, flag: "wx", flush: true });
  renameSync(fresh, path);
}
