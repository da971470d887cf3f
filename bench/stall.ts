// Preloaded into a gateway: at SIGUSR2 writes the longest stall of the event loop since the last time, in milliseconds.
import { renameSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 5;
const out = process.env["BEIGE_BENCH_STALL"];

// Children inherit the options of Node, not the task.
if (out !== undefined && process.argv[1]?.endsWith("daemon.js") === true) {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  process.on("SIGUSR2", () => {
    writeFileSync(`${out}.new`, String(Math.max(0, delay.max / 1e6 - RESOLUTION_MS)));
    renameSync(`${out}.new`, out);
    delay.reset();
  });
}
