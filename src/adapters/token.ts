// The operator's token for the loopback port: made at the first start, and again when what is there is no token.
import { chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../core/errors.ts";
import type { Random } from "../core/world.ts";

const BYTES = 32;
/** Shorter is what a full disk or an interrupted start left: it would open the door to a guess, or to nobody. */
const LENGTH_MIN = 32;

function tokenIn(path: string): string | undefined {
  try {
    const text = readFileSync(path, "utf8").trim();
    return text.length >= LENGTH_MIN && /^[\x21-\x7e]+$/.test(text) ? text : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new BeigeError("unavailable", `the token ${path} cannot be read`, { hint: `ls -ld ${path}`, cause: error });
  }
}

/** Throws `unavailable` when it can be neither read nor written. The file is the operator's alone, whatever it was before. */
export function operatorToken(home: string, random: Pick<Random, "hex">): string {
  const path = join(home, "token");
  const known = tokenIn(path);
  try {
    if (known !== undefined) {
      chmodSync(path, 0o600);
      return known;
    }
    const token = random.hex(BYTES);
    // Whole or not at all: nobody ever reads half a token.
    writeFileSync(`${path}.new`, `${token}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
    return token;
  } catch (error) {
    throw new BeigeError("unavailable", `the token ${path} cannot be written`, { hint: `df -h ${home}; ls -ld ${home}`, cause: error });
  }
}
