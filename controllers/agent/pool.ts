// Keeps the sandboxes that host.yaml wants started: takes over what an earlier gateway left, makes what is missing, one at a time,
// removes what no longer fits, and gives each to one agent only.
import type { HostWarm } from "../../schemas/types.ts";
import { asBeigeError, BeigeError } from "../../src/core/errors.ts";
import type { AgentId } from "../../src/core/call.ts";
import { LABEL, type SandboxListed } from "../../src/core/sandbox.ts";
import { seatId, WARM, type Warm, type WarmClaim, type WarmSandbox } from "../../src/core/seat.ts";
import { limitsOf } from "./box.ts";
import { bounded, inVain, shapeOf } from "./warm.ts";
import { createWork, type WorkDeps } from "./warmwork.ts";

/** Between two that are made: agents that start at the same time go first. */
const PACE_MS = 1000;
/** host.yaml is read and the engine asked so often when nothing happens. */
const LOOK_MS = 5000;
const BACKOFF_MS = 5000;
const BACKOFF_MAX_MS = 5 * 60_000;

export interface PoolDeps extends WorkDeps {
  /** Of host.yaml, read anew each time. */
  readonly entries: () => readonly HostWarm[];
  /** Whether the object is still there. */
  readonly exists: (uid: string) => boolean;
}

interface Failing {
  readonly message: string;
  readonly count: number;
  readonly untilMs: number;
}

interface Member extends WarmSandbox {
  readonly entry: string;
}

export interface Pool extends Warm {
  /** One look, and at most one sandbox made; answers when to look again. */
  tick(signal: AbortSignal): Promise<number>;
  /** Looks until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

const isWarm = ({ labels }: SandboxListed): boolean => labels[LABEL.kind] === WARM;
const seatOfBox = ({ labels }: SandboxListed): string => labels[LABEL.uid] ?? "";

/** What one look has found so far. */
interface Look {
  readonly entries: readonly HostWarm[];
  readonly levels: Map<string, number>;
  /** Seats of nobody, without a container. */
  readonly spare: string[];
  readonly signal: AbortSignal;
}

export function createPool(deps: PoolDeps): Pool {
  const { world } = deps;
  const { clock, log, sandbox, sockets, kits } = world;
  const { seats } = world.state;
  const work = createWork(deps);
  const members = new Map<string, Member>();
  /** Seats that somebody is about to have. */
  const claiming = new Set<string>();
  const failing = new Map<string, Failing>();
  /** Seats that cannot be tidied, and what was said of it. */
  const untidy = new Map<string, string>();
  let poke: (() => void) | undefined;

  /** It has become somebody's since it was listed, or is about to. */
  const given = (seat: string): boolean => claiming.has(seat) || seats.holder(seat) !== undefined;

  async function removeBox(box: SandboxListed, signal: AbortSignal): Promise<void> {
    members.delete(seatOfBox(box));
    await work.removeBox(box.id, signal);
  }

  /** The agent's own container serves; whatever else is in its seat is the rest of a replacement. Of an agent that is gone only the workspace stays. */
  async function tendHeld(agent: AgentId, boxes: readonly SandboxListed[], signal: AbortSignal): Promise<void> {
    const seat = seats.of(agent.uid) ?? "";
    // It left meanwhile.
    if (seats.holder(seat) !== agent.uid) return;
    const serving = deps.exists(agent.uid) ? world.state.active(agent.uid) : undefined;
    for (const box of boxes) if (isWarm(box) && seatOfBox(box) === seat && box.id !== serving) await removeBox(box, signal);
    if (deps.exists(agent.uid)) return work.point(agent);
    // Removed by force: its other containers are orphans, and whoever removes those comes first.
    if (!boxes.some((box) => box.labels[LABEL.uid] === agent.uid)) await work.vacate(agent);
  }

  /** Keeps, takes over or removes the container of a seat that nobody has. True when it is to stay. */
  async function tendFree(seat: string, box: SandboxListed, { entries, levels, signal }: Look): Promise<boolean> {
    for (const entry of entries) {
      const key = shapeOf(entry);
      if ((levels.get(key) ?? 0) >= entry.count) continue;
      const found = await work.fitting(entry, seat, box.id);
      if (found === undefined || given(seat)) continue;
      if (!members.has(seat) && !(await work.greet(found, signal).catch(() => false))) continue;
      if (given(seat)) continue;
      members.set(seat, { ...found, entry: key });
      levels.set(key, (levels.get(key) ?? 0) + 1);
      return true;
    }
    if (given(seat)) return true;
    await removeBox(box, signal);
    return false;
  }

  async function tick(signal: AbortSignal): Promise<number> {
    const entries = bounded(deps.entries());
    for (const key of failing.keys()) if (!entries.some((entry) => shapeOf(entry) === key)) failing.delete(key);
    const boxes = entries.length === 0 && seats.all().length === 0 ? [] : await sandbox.list(world.store, signal);
    const look: Look = { entries, levels: new Map(), spare: [], signal };
    for (const { id: seat, holder } of seats.all()) {
      if (claiming.has(seat)) continue;
      if (holder !== undefined) {
        await tendHeld(holder, boxes, signal).then(
          () => untidy.delete(seat),
          (error: unknown) => leftUntidy(seat, String(error)),
        );
        continue;
      }
      const [first, ...more] = boxes.filter((box) => isWarm(box) && seatOfBox(box) === seat);
      for (const box of more) await removeBox(box, signal);
      if (first === undefined || !(await tendFree(seat, first, look))) look.spare.push(seat);
    }
    const known = new Set(seats.all().map(({ id }) => id));
    for (const box of boxes) if (isWarm(box) && !known.has(seatOfBox(box))) await removeBox(box, signal);
    return fill(look);
  }

  async function fill({ entries, levels, spare, signal }: Look): Promise<number> {
    const now = clock.monotonic();
    const lacking = entries.filter((entry) => (levels.get(shapeOf(entry)) ?? 0) < entry.count);
    const next = lacking.find((entry) => (failing.get(shapeOf(entry))?.untilMs ?? 0) <= now);
    // One that failed is made again in its seat: nobody had it.
    const [again, ...others] = spare;
    for (const seat of lacking.length === 0 ? spare : others) await work.clearSeat(seat);
    if (next === undefined) return LOOK_MS;
    const seat = again ?? world.random.uuid();
    try {
      const why = inVain(next);
      if (why !== undefined) throw new BeigeError("invalid", why);
      const absent = (await sandbox.image(next.image, signal)) === undefined;
      if (absent) throw new BeigeError("not_found", `image ${next.image} is not on the engine`);
      seats.make(seat);
      members.set(seat, { ...(await work.make(next, seat, signal)), entry: shapeOf(next) });
      failing.delete(shapeOf(next));
    } catch (error) {
      if (signal.aborted) throw error;
      failed(next, asBeigeError(error));
    }
    return PACE_MS;
  }

  /** Said once: it is tried at every look. */
  function leftUntidy(seat: string, error: string): void {
    if (untidy.get(seat) !== error) log.warn("a seat is not tidied", { seat, error });
    untidy.set(seat, error);
  }

  /** One warning for one failure, however often it comes again. */
  function failed(entry: HostWarm, { message }: BeigeError): void {
    const key = shapeOf(entry);
    const before = failing.get(key);
    const count = (before?.count ?? 0) + 1;
    const pause = Math.min(BACKOFF_MS * 2 ** Math.min(count - 1, 10), BACKOFF_MAX_MS);
    failing.set(key, { message, count, untilMs: clock.monotonic() + pause });
    if (before?.message !== message) log.warn("a warm sandbox cannot be made", { image: entry.image, error: message });
  }

  /** True when it is the agent's. Whoever comes second changes nothing. */
  async function give({ seat, container, agent, kit, limits }: WarmClaim, member: Member, signal: AbortSignal): Promise<boolean> {
    if (kit.tools.length + kit.packages.length > 0) await kits.write(seatId(seat), kit, member.user);
    if (JSON.stringify(limitsOf(member.box.spec)) !== JSON.stringify(limits)) await sandbox.update(container, limits, signal);
    if (sockets.lend === undefined) throw new BeigeError("internal", "these sockets are not lent");
    const hand = await sockets.lend(seat, agent, member.user);
    signal.throwIfAborted();
    if (!seats.claim(seat, agent, container)) return false;
    hand();
    return true;
  }

  async function claim(wish: WarmClaim, signal: AbortSignal): Promise<void> {
    const { seat, container, agent } = wish;
    const member = members.get(seat);
    // Another agent was quicker: the next look finds another sandbox, or none.
    if (member === undefined || claiming.has(seat) || member.box.id !== container) return;
    // From here on nobody else gets it. Until the record it is nobody's: whatever stops us leaves it to be removed, never to be given.
    members.delete(seat);
    claiming.add(seat);
    try {
      if (!(await give(wish, member, signal))) return;
    } finally {
      claiming.delete(seat);
      poke?.();
    }
    await work
      .point(agent)
      .catch((error: unknown) => log.warn("no link to the workspace was made", { agent: agent.name, error: String(error) }));
  }

  async function pause(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new Promise<void>((done) => {
      poke = done;
    });
    await Promise.race([clock.sleep(ms, signal), woken]).catch(() => undefined);
    poke = undefined;
    // A claim wakes the pool; the agent that made it goes on first.
    if (!signal.aborted) await clock.sleep(PACE_MS, signal).catch(() => undefined);
  }

  return {
    ready: (image) =>
      [...members.values()].filter(({ seat, box }) => box.spec.image === image && sockets.seen(seat).hellos.includes(box.id.slice(0, 12))),
    claim,
    leave: (agent) => work.leave(agent),
    levels: () =>
      bounded(deps.entries()).map((entry) => {
        const key = shapeOf(entry);
        const ready = [...members.values()].filter((member) => member.entry === key).length;
        const problem = failing.get(key)?.message;
        return { image: entry.image, wanted: entry.count, ready, ...(problem === undefined ? {} : { problem }) };
      }),
    waiting: () => [...members.values()].map(({ box }) => box.id),
    tick,
    async run(signal) {
      let down: string | undefined;
      while (!signal.aborted) {
        let next = LOOK_MS;
        try {
          next = await tick(signal);
          down = undefined;
        } catch (error) {
          if (signal.aborted) return;
          const { message } = asBeigeError(error);
          if (down !== message) log.warn("the warm pool cannot be looked at", { error: message });
          down = message;
        }
        await pause(next, signal);
      }
    },
  };
}
