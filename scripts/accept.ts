// `npm run accept`: the product's promises on the real engine, a line each. `npm run accept -- NAME` runs one.
import { clone } from "../test/accept/clone.ts";
import { crash } from "../test/accept/crash.ts";
import { drift } from "../test/accept/drift.ts";
import { record } from "../test/accept/record.ts";
import { rogue } from "../test/accept/rogue.ts";
import { secrets } from "../test/accept/secrets.ts";

interface Promise_ {
  readonly name: string;
  readonly says: string;
  readonly run: () => Promise<string>;
}

const promises: readonly Promise_[] = [
  { name: "clone", says: "a fresh clone with an empty HOME: quickstart twice", run: clone },
  { name: "drift", says: "a container that was removed by hand is back within 10 s", run: drift },
  { name: "crash", says: "kill -9 of the gateway loses and doubles nothing", run: () => crash(20) },
  { name: "record", says: "what is refused is recorded, and tampering shows", run: record },
  { name: "rogue", says: "a rogue agent reads, changes, forges, reaches and brings down nothing", run: () => rogue() },
  { name: "secrets", says: "twelve planted values are found only where they belong", run: secrets },
];

const wanted = process.argv.slice(2);
let failed = 0;
for (const { name, says, run } of promises) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const begun = performance.now();
  const line = (mark: string, text: string): void =>
    console.log(`${mark} ${name.padEnd(8)} ${says}: ${text} (${Math.round((performance.now() - begun) / 1000)} s)`);
  try {
    line("ok  ", await run());
  } catch (error) {
    failed += 1;
    line("FAIL", error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
}
process.exitCode = failed === 0 ? 0 : 1;
