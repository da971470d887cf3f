// Commands through the supervisor that is PID 1 of a sandbox: one connection a sandbox, opened at the first command.
import { BeigeError } from "../src/core/errors.ts";
import type { ExecHandle, ExecRequest } from "../src/core/sandbox.ts";
import { encodeSpec, SPEC_MAX } from "./resident/frames.ts";
import type { Carrier, Fate, LinkOptions } from "./resident/greet.ts";
import type { Job } from "./resident/job.ts";
import { createKept, type KeptOptions } from "./resident/kept.ts";
import { createLink, type Begin, type Link } from "./resident/link.ts";
import { WINDOW_BYTES } from "./resident/state.ts";

const START_MS = 15_000;
/** Past its limit, or past a kill, the supervisor has to have ended a command within this. */
const LATE_MS = 10_000;
/** A gateway that was stopped for a while wakes to its clock before it hears what came meanwhile. */
const SECOND_LOOK_MS = 1000;
/** A connection that carries nothing for so long is closed. */
const IDLE_MS = 10 * 60_000;
const COMMANDS_MAX = 250;
/** After a start, commands of the gateway before can be taken up again for so long. */
export const REJOIN_MS = 30_000;

export interface ResidentOptions extends Pick<LinkOptions, "epoch" | "nonce" | "clock" | "log"> {
  readonly connect: (id: string, signal: AbortSignal) => Promise<Carrier>;
  readonly fate: (id: string) => Promise<Fate>;
  /** As `dial` of a link. */
  readonly dial?: (id: string, say: (body: Buffer) => void, signal: AbortSignal) => Promise<Carrier | undefined>;
  /** Without it no command outlives its gateway. */
  readonly kept?: KeptOptions;
  /** How long commands of the gateway before wait to be taken up again. */
  readonly rejoinMs?: number;
}

export interface Resident {
  exec(id: string, request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
  rejoin(id: string, key: string, signal?: AbortSignal): Promise<ExecHandle | undefined>;
  /** Forgets the connection to a sandbox that is stopped or removed. */
  drop(id: string): void;
  /** Commands go on without this gateway. */
  close(): void;
}

interface Held {
  readonly link: Link;
  used: number;
}

function specOf(request: ExecRequest, timeoutMs: number): Buffer {
  const { cwd = "/workspace", command, terminal } = request;
  const env = Object.entries(request.env ?? {}).map(([name, value]) => `${name}=${value}`);
  const spec = encodeSpec({ cwd, command, env, timeoutMs, windowBytes: WINDOW_BYTES, terminal });
  if (spec.length <= SPEC_MAX) return spec;
  throw new BeigeError("invalid", `the command has ${spec.length} bytes, and ${SPEC_MAX} are possible`, {
    hint: "write it to a file and name the file",
  });
}

export function createResident(options: ResidentOptions): Resident {
  const { clock } = options;
  const held = new Map<string, Held>();
  const kept = options.kept === undefined ? undefined : createKept(options.kept);
  const ours = new Set<string>();
  const rejoinMs = kept === undefined ? 0 : (options.rejoinMs ?? REJOIN_MS);
  const strangersUntil = clock.monotonic() + rejoinMs;
  const drop = (id: string): void => {
    held.get(id)?.link.close("the sandbox was removed", true);
    held.delete(id);
    kept?.unmark(id);
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
    const { connect, dial, fate, ...same } = options;
    const quick = dial === undefined ? {} : { dial: (say: (body: Buffer) => void, s: AbortSignal) => dial(id, say, s) };
    const link = createLink({ ...same, ...quick, connect: (s) => connect(id, s), fate: () => fate(id), strangersUntil });
    const made: Held = { link, used: clock.monotonic() };
    held.set(id, made);
    kept?.mark(id);
    idle(id, made);
    return made;
  };
  /** Ends a wait that the supervisor should have ended. */
  const guard = (job: Job, timeoutMs: number | undefined, signal: AbortSignal | undefined): ExecHandle => {
    let late: { cancel(): void } | undefined;
    const after = (ms: number): void => {
      late?.cancel();
      late = clock.after(ms, () => {
        if (job.waiting()) after(LATE_MS);
        else late = clock.after(SECOND_LOOK_MS, () => job.lost("the sandbox did not answer after the command's limit"));
      });
    };
    if (timeoutMs !== undefined) after(timeoutMs + LATE_MS);
    const kill = (): void => {
      if (job.ended()) return;
      job.handle.kill();
      after(LATE_MS);
    };
    if (signal?.aborted === true) kill();
    else signal?.addEventListener("abort", kill, { once: true });
    void job.handle.exit.then(() => {
      late?.cancel();
      signal?.removeEventListener("abort", kill);
    });
    return { ...job.handle, kill };
  };
  const forgetter = (key: string) => (): void => {
    ours.delete(key);
    kept?.end(key);
  };
  const keeping = (container: string, { key, inputKept }: ExecRequest): Pick<Begin, "keep" | "forgotten"> => {
    if (kept === undefined || key === undefined) return {};
    if (ours.has(key)) throw new BeigeError("conflict", `a command with the key ${key} runs already`);
    ours.add(key);
    const again = inputKept === true ? { inputKept } : {};
    return { keep: (boot: string, cmd: number) => kept.begin(key, { container, boot, cmd, ...again }), forgotten: forgetter(key) };
  };
  /** What nobody took up again is ended, also where no new command opens the connection. */
  const sweep = async (): Promise<void> => {
    if (kept === undefined) return;
    kept.sweep((key) => ours.has(key));
    for (const id of kept.containers()) {
      if ((await options.fate(id)).state === "ended") drop(id);
      else
        await linkOf(id)
          .link.open()
          .catch(() => undefined);
    }
  };
  const sweeping = kept === undefined ? undefined : clock.after(rejoinMs, () => void sweep());
  return {
    async exec(id, request, signal) {
      signal?.throwIfAborted();
      const one = linkOf(id);
      one.used = clock.monotonic();
      if (one.link.jobs() >= COMMANDS_MAX) {
        throw new BeigeError("exhausted", `${COMMANDS_MAX} commands run in this sandbox`, { hint: "wait until some have ended" });
      }
      const timeoutMs = Math.max(1, Math.ceil(request.timeoutMs));
      const spec = specOf(request, timeoutMs);
      const keep = keeping(id, request);
      try {
        return guard(await one.link.start({ spec, limitMs: START_MS, ...keep }), timeoutMs, signal);
      } catch (error) {
        keep.forgotten?.();
        throw error;
      }
    },
    async rejoin(id, key, signal) {
      signal?.throwIfAborted();
      const row = kept?.row(key);
      if (kept === undefined || row === undefined || row.container !== id || ours.has(key)) return undefined;
      ours.add(key);
      try {
        const job = await linkOf(id).link.rejoin({ ...row, ...kept.goOn(key, row), forgotten: forgetter(key) });
        return guard(job, undefined, signal);
      } catch (error) {
        ours.delete(key);
        throw error;
      }
    },
    drop,
    close() {
      sweeping?.cancel();
      for (const { link } of held.values()) link.close("the gateway ends", false);
      held.clear();
    },
  };
}
