// A rogue agent on the real engine: what it must not read, change, reach, forge, slow down or bring down.
import { bombs } from "./rogue/bombs.ts";
import { folders } from "./rogue/folders.ts";
import { frames } from "./rogue/frames.ts";
import { openGround, type Ground } from "./rogue/ground.ts";
import { links } from "./rogue/links.ts";
import { walls } from "./rogue/walls.ts";
import { logTail } from "../gateway.ts";

/** Links are last: they end with the deletion of the rogue. */
const ATTACKS: Readonly<Record<string, (ground: Ground) => Promise<string>>> = { walls, frames, folders, bombs, links };

/** All attacks, or those that are named. */
export async function rogue(...only: readonly string[]): Promise<string> {
  const ground = await openGround();
  const said: string[] = [];
  try {
    for (const [name, attack] of Object.entries(ATTACKS)) if (only.length === 0 || only.includes(name)) said.push(await attack(ground));
    return said.join("; ");
  } catch (error) {
    if (error instanceof Error) error.message += `\nlog: ${logTail(ground.gateway).slice(-1500)}`;
    throw error;
  } finally {
    await ground.clean();
  }
}
