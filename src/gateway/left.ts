// Conversations that a lost store left: found again by their names, for the agent that goes on under its former uid.
import { readdir } from "node:fs/promises";
import { adoptionOf } from "../core/adoption.ts";
import { sessionFolder } from "../core/paths.ts";
import type { Agent } from "../core/resource.ts";

/** More than anybody has conversations; an overfull folder is not searched to its end. */
const FILES_MAX = 100_000;

/** The newest file of a session key; names are HASH-TIME-RANDOM.jsonl, the time in base 36. */
export async function leftSession(
  home: string,
  agent: Agent,
  hash: string,
): Promise<{ readonly id: string; readonly file: string } | undefined> {
  const adoption = adoptionOf(agent.metadata);
  if (adoption?.kind !== "lost" || adoption.uid !== agent.metadata.uid) return undefined;
  const folder = sessionFolder(home, agent.metadata);
  const names = (await readdir(folder).catch(() => [])).slice(0, FILES_MAX);
  const found = names.flatMap((name) => {
    const [, of, time] = /^([0-9a-f]{16})-([0-9a-z]{1,12})-[0-9a-f]{8}\.jsonl$/.exec(name) ?? [];
    return of === hash && time !== undefined ? [{ name, time: Number.parseInt(time, 36) }] : [];
  });
  const newest = found.toSorted((a, b) => b.time - a.time)[0]?.name;
  return newest === undefined ? undefined : { id: newest.replace(/\.jsonl$/, ""), file: `${folder}/${newest}` };
}
