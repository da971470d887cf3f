// The engine's attach stream as the carrier of the supervisor's protocol, and what the engine knows of a sandbox that is silent.
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { BeigeError } from "../../src/core/errors.ts";
import type { Place } from "../resident/dial.ts";
import type { Carrier, Fate } from "../resident/greet.ts";
import { ask, LOOK_MS, passing } from "./ask.ts";
import { short } from "./containers.ts";
import { createDemux } from "./frames.ts";
import type { Engine, Inspected, Supervised } from "./words.ts";

const FATE_MS = 3000;
const INSIDE = "/beige";
const NAME = "supervisor.sock";
/** Containers that are known to have a supervisor or none. */
const KNOWN_MAX = 4096;

/** Undefined for a container without such a folder, and for one whose user has no number. */
function placeOf(info: Inspected): Place | undefined {
  const mount = info.Mounts?.find(({ Type, Destination }) => Type === "bind" && Destination === INSIDE);
  const [, uid, gid] = /^(\d+):(\d+)$/.exec(info.Config.User) ?? [];
  if (mount === undefined || uid === undefined || gid === undefined) return undefined;
  return { path: join(mount.Source, NAME), inside: `${INSIDE}/${NAME}`, owner: { uid: Number(uid), gid: Number(gid) } };
}

/** Whether PID 1 is ours and listens, and where it can dial: containers of an older beige have no standard input. */
export async function supervised(engine: Engine, id: string, signal?: AbortSignal): Promise<Supervised> {
  const known = engine.resident.get(id);
  if (known !== undefined) return known;
  const info = await ask(engine, `inspect container ${short(id)}`, (s) => engine.door.inspect(id, s), { signal, limitMs: LOOK_MS });
  const place = placeOf(info);
  const found = { ours: info.Config.OpenStdin === true && info.Config.Cmd?.[0] === "init", ...(place === undefined ? {} : { place }) };
  if (engine.resident.size >= KNOWN_MAX) engine.resident.clear();
  engine.resident.set(id, found);
  return found;
}

export const isResident = async (engine: Engine, id: string, signal?: AbortSignal): Promise<boolean> =>
  (await supervised(engine, id, signal)).ours;

const endOf = ({ State: state }: Inspected): string =>
  `the sandbox ended with exit code ${state.ExitCode}${state.OOMKilled ? ", out of memory" : ""}`;

export async function fate(engine: Engine, id: string): Promise<Fate> {
  try {
    const look = (s: AbortSignal): Promise<Inspected | undefined> => engine.door.inspect(id, s).catch(passing(404));
    const info = await ask(engine, "inspect", look, { limitMs: FATE_MS });
    if (info === undefined) return { state: "ended", reason: "the sandbox is gone" };
    if (!info.State.Running) return { state: "ended", reason: endOf(info) };
    return info.State.Paused ? { state: "paused", reason: `sandbox ${short(id)} is paused` } : { state: "running", reason: "" };
  } catch (error) {
    return { state: "unknown", reason: error instanceof Error ? error.message : String(error) };
  }
}

function carrierOf(stream: Duplex): Carrier {
  let closed = false;
  return {
    write: (data) => {
      if (!stream.destroyed) stream.write(data, () => undefined);
    },
    start(on) {
      const demux = createDemux();
      const close = (): void => {
        if (closed) return;
        closed = true;
        stream.destroy();
        on.close();
      };
      stream.on("data", (chunk: Buffer) => {
        try {
          for (const piece of demux(chunk)) if (piece.stream === "stdout") on.data(piece.data);
        } catch {
          close();
        }
      });
      stream.on("end", close).on("close", close).on("error", close);
    },
    // Never half-closed: that would end the other side's output too.
    destroy: () => void stream.destroy(),
  };
}

export async function connect(engine: Engine, id: string, signal: AbortSignal): Promise<Carrier> {
  const now = await fate(engine, id);
  if (now.state === "paused" || now.state === "ended") {
    throw new BeigeError("unavailable", `sandbox ${short(id)} is ${now.state === "paused" ? "paused" : "not running"}`, {
      hint: `docker ${now.state === "paused" ? "unpause" : "start"} ${short(id)}`,
    });
  }
  return carrierOf(await ask(engine, "attach to a sandbox", (s) => engine.door.attach(id, s), { signal, limitMs: FATE_MS }));
}
