// Takes a connection that was opened through the engine over to one that the supervisor makes itself, when it makes one.
import { encode } from "./frames.ts";
import type { Carrier, LinkOptions } from "./greet.ts";
import type { State } from "./line.ts";

/** All that was sent has to be read within this, before the supervisor is greeted elsewhere. */
const SETTLE_MS = 2000;
/** Commands wait for this: there is another connection. */
const HELLO_MS = 1000;
/** A supervisor that did not come so often is not asked any more: it is older, or cannot. */
const SHY_MAX = 2;
const ASKED = Buffer.alloc(8, 1);

export interface Quicken {
  readonly options: Pick<LinkOptions, "dial" | "clock">;
  readonly state: State;
  readonly openOn: (carrier: Carrier, limitMs: number) => Promise<void>;
  /** Opens through the engine. */
  readonly reopen: () => Promise<void>;
  /** Brings it back while commands wait. */
  readonly mend: () => Promise<void>;
}

/** True once the supervisor has read all that was sent; false when it does not say so. */
function allRead({ state, options }: Quicken, carrier: Carrier): Promise<boolean> {
  return new Promise((done) => {
    const timer = options.clock.after(SETTLE_MS, () => state.onPong?.(false));
    state.onPong = (came) => {
      timer.cancel();
      delete state.onPong;
      done(came);
    };
    carrier.write(encode({ type: "P", sess: state.sess, data: ASKED }));
  });
}

function missed(state: State): void {
  state.shyTimes = state.shy === state.hello?.boot ? state.shyTimes + 1 : 1;
  if (state.hello !== undefined) state.shy = state.hello.boot;
}

/** No byte is lost: what is not said to the old connection any more, the greeting on the new one says, or it is kept for later. */
async function change(quicken: Quicken, attached: Carrier, dialled: Carrier): Promise<void> {
  const { state, openOn, reopen } = quicken;
  state.quiet = true;
  const read = await allRead(quicken, attached);
  const same = state.carrier === attached;
  if (same) delete state.carrier;
  attached.destroy();
  try {
    if (!read || !same || state.closed) throw new Error("the connection ended");
    await openOn(dialled, HELLO_MS);
  } catch {
    dialled.destroy();
    missed(state);
    if (!state.closed) await reopen();
  }
}

/** Never rejects: without it the connection that there is goes on. */
export async function quicken(quicken: Quicken, attached: Carrier, say: (body: Buffer) => void): Promise<void> {
  const { state, options } = quicken;
  if (options.dial === undefined || (state.shy === state.hello?.boot && state.shyTimes >= SHY_MAX)) return;
  const dialled = await options.dial((body) => void (state.carrier === attached && say(body)), state.over.signal);
  if (state.carrier !== attached || state.closed) return dialled?.destroy();
  if (dialled === undefined) return missed(state);
  await state.opening?.catch(() => undefined);
  if (state.carrier !== attached || state.closed || state.opening !== undefined) return dialled.destroy();
  state.opening = change(quicken, attached, dialled).finally(() => delete state.opening);
  await state.opening.catch(() => undefined);
  // Not even the first way is open any more, and nobody may have noticed.
  if (state.carrier === undefined && !state.closed) void quicken.mend();
}
