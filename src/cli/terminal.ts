// This terminal while a command elsewhere has it: keys go there as they are, its size too, and in every case it comes back as it was.
import { spawnSync } from "node:child_process";
import type { ExecTerminal } from "../core/sandbox.ts";

export interface Terminal {
  /** As it was. Idempotent. */
  giveBack(): void;
}

const STTY_MS = 2000;

/** Raw, as it is known here, still makes \r\n of \n: a program elsewhere that draws would find its cursor at the left. */
function leaveOutput(): void {
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"], timeout: STTY_MS });
}

/** `keys`: they are passed on, so that ^C is the other side's matter. */
export function takeTerminal(keys: boolean, onSize: (size: ExecTerminal) => void): Terminal {
  const { stdin, stdout } = process;
  const tell = (): void => onSize({ rows: stdout.rows, columns: stdout.columns });
  const giveBack = (): void => {
    stdout.off("resize", tell);
    process.off("exit", giveBack);
    if (keys && stdin.isRaw) stdin.setRawMode(false);
  };
  // Also when a second signal ends the program at once.
  process.once("exit", giveBack);
  if (keys) {
    stdin.setRawMode(true);
    leaveOutput();
  }
  stdout.on("resize", tell);
  tell();
  return { giveBack };
}
