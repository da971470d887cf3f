// beige export health: what the gateway remembers of each model, in the shape of the file that older gateways kept.
import { BeigeError } from "../../core/errors.ts";
import { suggest } from "../../core/text.ts";
import type { Run } from "../flags.ts";

interface ModelHealth {
  readonly provider: string;
  readonly model: string;
  readonly failures: number;
  readonly coolingUntil?: string;
  readonly lastError?: string;
}

export const run: Run = async (context, input) => {
  const { items } = await context.client.get<{ readonly items: readonly ModelHealth[] }>({ path: "/api/providers/health" });
  const known = [...new Set(items.map((item) => item.provider))];
  const stranger = input.args.find((name) => !known.includes(name));
  if (stranger !== undefined)
    throw new BeigeError("not_found", `nothing is known of a provider ${JSON.stringify(stranger)}`, {
      hint: suggest(stranger, known, "providers"),
    });
  const shown = items.filter(({ provider }) => input.args.length === 0 || input.args.includes(provider));
  const file = Object.fromEntries(
    shown.map(({ provider, model, failures, coolingUntil, lastError }) => [
      `${provider}/${model}`,
      {
        consecutiveFailures: failures,
        ...(coolingUntil !== undefined && { retryAfter: coolingUntil }),
        ...(lastError !== undefined && { lastError }),
      },
    ]),
  );
  await context.out.write(`${JSON.stringify(file, undefined, 2)}\n`);
  return 0;
};
