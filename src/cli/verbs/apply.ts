// beige apply: makes what runs match these manifests. What shows it getting there is loaded while the gateway is at work.
import type { ApplyEvent } from "../../core/control.ts";
import { on, type Run, word } from "../flags.ts";
import { startingGateway } from "../gateway.ts";
import { manifestsOf, sendStack, type StackOptions, stackOptions } from "../stack.ts";

/** Until what was asked is on its way: what is loaded from then on is loaded while the gateway is at work. */
const sent = (): Promise<void> => new Promise((done) => void setImmediate(done));

/** Asks at once, before anybody looks at the answers. */
async function* begun<T>(events: AsyncGenerator<T>, first: Promise<IteratorResult<T>>): AsyncGenerator<T> {
  try {
    for (let step = await first; step.done !== true; step = await events.next()) yield step.value;
  } finally {
    await events.return(undefined);
  }
}

export const run: Run = async (given, asked) => {
  const planned = word(asked, "plan") === undefined ? undefined : (await import("../planfile.ts")).asPlanned(given, asked);
  const { context, input } = planned ?? { context: given, input: asked };
  const files = await manifestsOf(context, input);
  const options = stackOptions(input, planned ? { expect: planned.basis } : {});
  const json = word(input, "output") === "json";
  const send = (more: Partial<StackOptions>): AsyncGenerator<ApplyEvent> => {
    const ask = (): AsyncGenerator<ApplyEvent> => sendStack(context, files, { ...options, ...more });
    const events = on(input, "no-start") ? ask() : startingGateway(context, ask);
    const first = events.next();
    // Whoever reads the answers is told.
    first.catch(() => undefined);
    return begun(events, first);
  };
  if (options.dryRun) {
    const what = { events: send({ wait: false, detail: json }), options, json, input, started: context.now() };
    await sent();
    return (await import("./applied.ts")).dryRun(context, what);
  }
  let agreed: Partial<StackOptions> = {};
  if (!planned && !on(input, "yes") && (options.prune || context.out.terminal)) {
    const events = (): AsyncGenerator<ApplyEvent> => send({ dryRun: true, wait: false, detail: true });
    agreed = await (await import("./applied.ts")).agree(context, events, { options, json });
  }
  const what = { events: send(agreed), options: { ...options, ...agreed }, json, input: asked, started: context.now() };
  await sent();
  return (await import("./applied.ts")).follow(context, what);
};
