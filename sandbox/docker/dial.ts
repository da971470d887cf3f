// Where the supervisor of a container can dial the gateway: the sandbox's socket folder, when it is a folder of this machine.
import { randomBytes } from "node:crypto";
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { awaitDial } from "../resident/dial.ts";
import type { Carrier } from "../resident/greet.ts";
import { supervised } from "./attach.ts";
import type { Engine } from "./words.ts";

const SECRET_BYTES = 16;

/** Never rejects: without it the attach stream goes on. */
export async function dial(engine: Engine, id: string, say: (body: Buffer) => void, signal: AbortSignal): Promise<Carrier | undefined> {
  const info = await supervised(engine, id, signal).catch(() => undefined);
  const place = info === undefined ? undefined : info.place;
  // The engine may be on another machine, or in one of its own.
  const folder = place === undefined ? undefined : await lstat(join(place.path, "..")).catch(() => undefined);
  if (place === undefined || folder?.isDirectory() !== true) return undefined;
  return awaitDial({ place, say, secret: randomBytes(SECRET_BYTES), clock: engine.clock, signal });
}
