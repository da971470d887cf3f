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

/** Nothing where host.yaml asks for none. */
export function warmFindings(health: Readonly<Record<string, unknown>> | undefined): readonly Finding[] {
  return (saidIn(health).levels ?? []).map(({ image, wanted, ready, problem }): Finding => {
    const message = oneLine(`${ready} of ${wanted} sandboxes of ${image} wait for an agent${problem === undefined ? "" : `: ${problem}`}`);
    if (problem === undefined) return { name: "warm", state: "ok", message };
    return { name: "warm", state: "warning", message, fix: "beige logs gateway --level warn; warm: in host.yaml says what is wanted" };
  });
}
