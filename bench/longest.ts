// Asks a live gateway for the longest time for which its event loop did nothing else.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Gateway, until } from "../test/gateway.ts";

export interface StallMeter {
  /** What the gateway is to be started with. */
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds, since the last time it was asked. */
  ask(): Promise<number>;
}

export function stallMeter(gateway: Gateway): StallMeter {
  const out = join(gateway.home, "stall.json");
  const read = (): string => {
    try {
      return readFileSync(out, "utf8");
    } catch {
      return "";
    }
  };
  return {
    env: { NODE_OPTIONS: `--import=${join(import.meta.dirname, "stall.ts")}`, BEIGE_BENCH_STALL: out },
    async ask() {
      rmSync(out, { force: true });
      process.kill(gateway.pid(), "SIGUSR2");
      return Number(await until(read, 10_000, "the gateway tells its longest stall"));
    },
  };
}
