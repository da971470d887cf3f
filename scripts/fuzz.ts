// `npm run fuzz [-- SECONDS]`: bends recorded streams of the supervisor's protocol, so long each way; a stream that breaks something joins
// the corpus. Strangers come to the socket where it is awaited for a sixth of that time.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guestPath } from "../sandbox/guest.ts";
import { corpus, fuzzGateway, fuzzSupervisor, record, type Fuzzed } from "../test/resident/fuzz.ts";
import { buildSanitized, hasCompiler } from "../test/resident/sanitized.ts";
import { fuzzDial } from "../test/resident/strangers.ts";

const [word = "60"] = process.argv.slice(2);
if (word === "record") {
  await record();
} else {
  const seconds = Number(word);
  if (!(seconds > 0)) throw new Error(`${word} is no number of seconds`);
  const folder = mkdtempSync(join(tmpdir(), "beige-fuzz-"));
  const seed = Date.now() % 1_000_000_000;
  const say = (side: "supervisor" | "gateway", { streams, failure }: Fuzzed): void => {
    console.log(`${side}: ${streams} streams from seed ${seed}`);
    if (failure === undefined) return;
    const path = join(corpus, side, `found-${failure.seed}.bin`);
    writeFileSync(path, failure.stream);
    console.error(`${failure.why}\nwritten to ${path}`);
    process.exitCode = 1;
  };
  try {
    const binary = hasCompiler() ? buildSanitized(folder) : guestPath();
    say("supervisor", await fuzzSupervisor(binary, seconds, seed));
    say("gateway", await fuzzGateway(seconds, seed));
    const { streams, failure } = await fuzzDial(seconds / 6, seed);
    console.log(`dial: ${streams} doors from seed ${seed}`);
    if (failure !== undefined) throw new Error(`${failure.why}, seed ${failure.seed}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
