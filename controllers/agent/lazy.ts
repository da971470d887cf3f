// An agent with start: lazy rests until a call or a prompt asks for its sandbox. Pure.
import { imageMissing, remains, type Body } from "./live.ts";
import type { Situation } from "./situation.ts";
import { shortId } from "./seen.ts";

const UP: ReadonlySet<string> = new Set(["running", "paused", "restarting"]);

/** Nothing of it runs, and nobody waits for it. */
export const asleep = (s: Situation): boolean =>
  s.agent.spec.sandbox.start === "lazy" && !s.seen.wanted && !s.containers.some((box) => UP.has(box.state));

/** What would hinder the start is said now, not to the first caller. */
export function planAsleep(s: Situation): Body {
  if (s.refused !== undefined) {
    const { waitMs } = s.refused;
    return { actions: [], pending: s.refused, ...(waitMs === undefined ? {} : { wait: { ms: waitMs } }) };
  }
  if (s.seen.imageId === undefined) return imageMissing(s);
  const kept = s.active ?? s.spare;
  const what = kept === undefined ? "the sandbox is made" : `sandbox ${shortId(kept.id)} is started`;
  return { actions: remains(s, kept), asleep: `${what} at the first call or prompt` };
}
