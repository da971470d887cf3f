// The two pipes of PID 1 as the carrier of the supervisor's protocol: they have names on the host only, and outlive each connection.
import { closeSync, constants, openSync } from "node:fs";
import { Socket } from "node:net";
import type { Carrier } from "../resident/greet.ts";

export function openPipes(inPath: string, outPath: string): Carrier {
  // Opened for both as well: writing to a pipe that nobody reads any more is no signal then.
  const into = openSync(inPath, constants.O_RDWR | constants.O_NONBLOCK);
  let from: number;
  try {
    from = openSync(outPath, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    closeSync(into);
    throw error;
  }
  const writer = new Socket({ fd: into, readable: false, writable: true });
  const reader = new Socket({ fd: from, readable: true, writable: false });
  let closed: (() => void) | undefined;
  let gone = false;
  const close = (): void => {
    if (gone) return;
    gone = true;
    writer.destroy();
    reader.destroy();
    closed?.();
  };
  writer.on("error", close).on("close", close);
  reader.on("error", close).on("close", close).on("end", close);
  return {
    write: (data) => {
      if (!gone) writer.write(data, () => undefined);
    },
    start(on) {
      closed = () => on.close();
      if (gone) return on.close();
      reader.on("data", (chunk: Buffer) => on.data(chunk));
    },
    destroy: close,
  };
}
