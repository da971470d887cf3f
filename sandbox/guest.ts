// Finds the committed static binary that runs inside sandboxes, for this machine's CPU.
import { fileURLToPath } from "node:url";
import { BeigeError } from "../src/core/errors.ts";

const CPUS: Readonly<Record<string, string>> = { x64: "x64", arm64: "arm64" };

/** Absolute host path. Containers run on this host's CPU, whatever their image. */
export function guestPath(arch: string = process.arch): string {
  const cpu = CPUS[arch];
  if (cpu === undefined) {
    throw new BeigeError("unavailable", `there is no guest program for the CPU ${arch}`, {
      hint: "build one with sandbox/guest/build.sh",
    });
  }
  return fileURLToPath(new URL(`./guest/bin/beige-guest-${cpu}`, import.meta.url));
}
