// What the gateway says of the sandboxes that wait for an agent, for doctor and orphans.
import type { WarmLevel } from "../core/seat.ts";
import type { Finding } from "./verbs/doctor.ts";
import { oneLine } from "./output.ts";

interface Said {
  readonly levels?: readonly WarmLevel[];
  readonly waiting?: readonly string[];
}

const saidIn = (health: Readonly<Record<string, unknown>> | undefined): Said => health?.["warm"] ?? {};

/** Ids of containers that wait. */
export const waitingIn = (health: Readonly<Record<string, unknown>>): ReadonlySet<string> => new Set(saidIn(health).waiting);

/** In a few words; nothing where host.yaml asks for none. */
export function warmText(health: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const levels = saidIn(health).levels ?? [];
  const sum = (key: "ready" | "wanted"): number => levels.reduce((all, each) => all + each[key], 0);
  return levels.length === 0 ? undefined : `${sum("ready")} of ${sum("wanted")} sandboxes wait for an agent`;
}

/** Nothing where host.yaml asks for none. */
export function warmFindings(health: Readonly<Record<string, unknown>> | undefined): readonly Finding[] {
  const levels = saidIn(health).levels ?? [];
  return levels.map(({ image, wanted, ready, problem }, at): Finding => {
    // Entries of one image are told apart by their place.
    const which = levels.filter((each) => each.image === image).length > 1 ? ` (entry ${at + 1})` : "";
    const message = oneLine(
      `${ready} of ${wanted} sandboxes of ${image}${which} wait for an agent${problem === undefined ? "" : `: ${problem}`}`,
    );
    if (problem === undefined) return { name: "warm", state: "ok", message };
    return { name: "warm", state: "warning", message, fix: "beige logs gateway --level warn; warm: in host.yaml says what is wanted" };
  });
}
