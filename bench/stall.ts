// Preloaded into a gateway: at SIGUSR2 writes the longest stall of the event loop since the last time, in milliseconds.
import { readFileSync, renameSync, writeFileSync } from "node:fs";

const TICK_MS = 5;
const out = process.env["BEIGE_BENCH_STALL"];

/** Milliseconds for which this thread was ready and other processes had the processor. */
function waitedMs(): number {
  try {
    return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}

// Children inherit the options of Node, not the task.
if (out !== undefined && process.argv[1]?.endsWith("daemon.js") === true) {
  let longest = 0;
  let at = performance.now();
  let waited = waitedMs();
  setInterval(() => {
    const [now, waits] = [performance.now(), waitedMs()];
    longest = Math.max(longest, now - at - (waits - waited) - TICK_MS);
    [at, waited] = [now, waits];
  }, TICK_MS).unref();
  process.on("SIGUSR2", () => {
    writeFileSync(`${out}.new`, String(longest));
    renameSync(`${out}.new`, out);
    longest = 0;
  });
}
