// What the control plane takes when nothing or much changes: plans, watches, Sources, and kubectl.
import { composeUp } from "./compose.ts";
import type { Fleet } from "./fleet.ts";
import { kubectlApply } from "./kubectl.ts";
import type { Line } from "./measure.ts";
import { largePlan, noopPlan } from "./plan.ts";
import { settling } from "./source.ts";
import { fanOut } from "./watch.ts";

export async function plane(program: string, fleet: () => Promise<Fleet>): Promise<readonly Line[]> {
  // First those that need a quiet machine and no containers.
  const alone = [...(await largePlan(program)), await fanOut(program), await settling(program)];
  const twenty = await fleet();
  return [await noopPlan(twenty), ...alone, ...(await composeUp(twenty, program)), ...(await kubectlApply(twenty))];
}
