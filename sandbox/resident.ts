// Commands through the supervisor that is PID 1 of a sandbox: one connection a sandbox, opened at the first command.
import { BeigeError } from "../src/core/errors.ts";
import type { ExecHandle, ExecRequest } from "../src/core/sandbox.ts";
import type { Clock, Log } from "../src/core/world.ts";
import { encodeSpec, SPEC_MAX } from "./resident/frames.ts";
import { WINDOW_BYTES } from "./resident/job.ts";
import { createLink, type Carrier, type Fate, type Link } from "./resident/link.ts";

const START_MS = 15_000;
/** Past its limit the supervisor has to have ended a command within this. */
const LATE_MS = 10_000;
/** A connection that carries nothing for so long is closed. */
const IDLE_MS = 10 * 60_000;
const COMMANDS_MAX = 250;

export interface ResidentOptions {
  readonly connect: (id: string, signal: AbortSignal) => Promise<Carrier>;
  readonly fate: (id: string) => Promise<Fate>;
  readonly epoch: number;
  readonly nonce: () => Buffer;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Resident {
  exec(id: string, request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
  /** Forgets the connection to a sandbox that is stopped or removed. */
  drop(id: string): void;
  close(): void;
}

interface Held {
  readonly link: Link;
  used: number;
}

export function createResident(options: ResidentOptions): Resident {
  const held = new Map<string, Held>();
  const { clock } = options;
  const drop = (id: string): void => {
    held.get(id)?.link.close();
    held.delete(id);
  };
  const idle = (id: string, one: Held): void => {
    clock.after(IDLE_MS, () => {
      if (held.get(id) !== one) return;
      if (one.link.jobs() > 0 || clock.monotonic() - one.used < IDLE_MS) idle(id, one);
      else drop(id);
    });
  };
  const linkOf = (id: string): Held => {
    const known = held.get(id);
    if (known !== undefined) return known;
    const { epoch, nonce, log } = options;
    const link = createLink({ connect: (s) => options.connect(id, s), fate: () => options.fate(id), epoch, nonce, clock, log });
    const made: Held = { link, used: clock.monotonic() };
    held.set(id, made);
    idle(id, made);
    return made;
  };
  return {
    async exec(id, request, signal) {
      signal?.throwIfAborted();
      const one = linkOf(id);
      one.used = clock.monotonic();
      if (one.link.jobs() >= COMMANDS_MAX) {
        throw new BeigeError("exhausted", `${COMMANDS_MAX} commands run in this sandbox`, { hint: "wait until some have ended" });
      }
      const timeoutMs = Math.max(1, Math.ceil(request.timeoutMs));
      const env = Object.entries(request.env ?? {}).map(([name, value]) => `${name}=${value}`);
      const spec = encodeSpec({ cwd: request.cwd ?? "/workspace", command: request.command, env, timeoutMs, windowBytes: WINDOW_BYTES });
      if (spec.length > SPEC_MAX) {
        throw new BeigeError("invalid", `the command has ${spec.length} bytes, and ${SPEC_MAX} are possible`, {
          hint: "write it to a file and name the file",
        });
      }
      const job = await one.link.start(spec, START_MS);
      const { handle } = job;
      let late: { cancel(): void };
      const look = (): void => {
        if (job.waiting()) late = clock.after(LATE_MS, look);
        else job.lost("the sandbox did not answer after the command's limit");
      };
      late = clock.after(timeoutMs + LATE_MS, look);
      const abort = (): void => handle.kill();
      if (signal?.aborted === true) abort();
      else signal?.addEventListener("abort", abort, { once: true });
      void handle.exit.then(() => {
        late.cancel();
        signal?.removeEventListener("abort", abort);
      });
      return handle;
    },
    drop,
    close() {
      for (const id of [...held.keys()]) drop(id);
    },
  };
}
