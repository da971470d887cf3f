// What is done to sandboxes that wait for an agent: made, greeted, looked at, removed. Each effect has its rows in the control chain.
import type { HostWarm } from "../../schemas/types.ts";
import { asBeigeError, BeigeError } from "../../src/core/errors.ts";
import type { AgentId } from "../../src/core/call.ts";
import type { View } from "../../src/core/kind.ts";
import { workspaceFolder } from "../../src/core/paths.ts";
import { placeOf, seatFolder, seatId, type Seats, type WarmSandbox } from "../../src/core/seat.ts";
import type { World } from "../../src/core/world.ts";
import { compare } from "./drift.ts";
import { forgetListing } from "./listing.ts";
import { warmBox } from "./warm.ts";

const HELLO_MS = 20_000;
const HELLO_LOOK_MS = 25;
const PROBE_MS = 5000;
const MAKE_MS = 60_000;
/** Launchers come with the agent. */
const EMPTY = { tools: [], packages: [] };

/** Host folders of seats. */
export interface SeatWork {
  /** A link at the usual place, for people; what is there already stays. */
  point(usual: string, workspace: string): Promise<void>;
  /** The workspace moves to the usual place in one step. Throws `conflict` when something else is there. */
  bringHome(usual: string, workspace: string): Promise<void>;
  /** Removes an empty folder; one that is not stays. */
  tidy(folder: string): Promise<void>;
  /** Removes a folder that nobody ever had. */
  clear(folder: string): Promise<void>;
}

export interface WorkDeps {
  readonly world: Pick<World, "clock" | "log" | "home" | "sandbox" | "workspaces" | "kits" | "sockets" | "random" | "store" | "control"> & {
    readonly state: Pick<World["state"], "hostUser" | "active"> & { readonly seats: Seats };
  };
  /** Only for where the gateway lies. */
  readonly view: () => View;
  readonly folders: SeatWork;
}

export interface Work {
  make(entry: HostWarm, seat: string, signal: AbortSignal): Promise<WarmSandbox>;
  /** The container as its entry wants it; undefined where it is anything else. */
  fitting(entry: HostWarm, seat: string, id: string): Promise<WarmSandbox | undefined>;
  /** Of one that an earlier gateway left. False when it does not answer. */
  greet(found: WarmSandbox, signal: AbortSignal): Promise<boolean>;
  removeBox(id: string, signal: AbortSignal): Promise<void>;
  /** A seat that nobody ever had: folders and sockets go. The number of its user is never given again. */
  clearSeat(seat: string): Promise<void>;
  /** The seat of an agent whose object is gone without having left it. */
  vacate(agent: AgentId): Promise<void>;
  leave(agent: AgentId): Promise<void>;
  point(agent: AgentId): Promise<void>;
}

export function createWork({ world, view, folders }: WorkDeps): Work {
  const { clock, home, sandbox, sockets, kits } = world;
  const { state } = world;
  const { seats } = state;
  const placeOfSeat = (seat: string) => placeOf(home, seatId(seat), seats.of);
  const placeOfAgent = (agent: AgentId) => placeOf(home, agent, seats.of);

  /** The row first: nothing is done without it. */
  async function recorded<T>(tool: string, summary: string, run: () => Promise<T>): Promise<T> {
    const call = world.random.uuid();
    const row = {
      agent: "warm",
      type: "control",
      tool,
      args: [summary],
      decision: "allowed",
      target: "engine",
      principal: "engine",
    } as const;
    await world.control.begin(call, row);
    const began = clock.monotonic();
    const end = (outcome: "ok" | "failed", error?: string): Promise<void> => {
      const durationMs = Math.round(clock.monotonic() - began);
      const said = { durationMs, exitCode: outcome === "ok" ? 0 : 1, outputBytes: 0, outcome, ...(error === undefined ? {} : { error }) };
      return world.control
        .end(call, row, said)
        .catch((thrown: unknown) =>
          world.log.error("the outcome of an action was not recorded", { action: summary, error: String(thrown) }),
        );
    };
    try {
      const answer = await run();
      await end("ok");
      return answer;
    } catch (error) {
      await end("failed", asBeigeError(error).message);
      throw error;
    }
  }

  async function heard(seat: string, id: string, signal: AbortSignal): Promise<boolean> {
    const until = clock.monotonic() + HELLO_MS;
    while (!sockets.seen(seat).hellos.includes(id.slice(0, 12))) {
      if (clock.monotonic() > until) return false;
      await clock.sleep(HELLO_LOOK_MS, signal);
    }
    return true;
  }

  /** Whatever it answers, commands run and the way in is open. */
  async function probe(id: string, signal: AbortSignal): Promise<void> {
    const ran = await sandbox.exec(id, { command: ["true"], timeoutMs: PROBE_MS }, signal);
    const parts = ran.output[Symbol.asyncIterator]();
    while ((await parts.next()).done !== true);
    const end = await ran.exit;
    if (end.kind !== "code") throw new BeigeError("unavailable", `a command in the warm sandbox ended with ${end.kind}`);
  }

  async function fitting(entry: HostWarm, seat: string, id: string): Promise<WarmSandbox | undefined> {
    const looks = [sandbox.inspect(id), sandbox.image(entry.image), kits.seen(seatId(seat)), kits.hash(EMPTY)] as const;
    const [box, imageId, kit, empty] = await Promise.all(looks);
    if (box?.state !== "running" || imageId === undefined || kit !== empty) return undefined;
    const user = state.hostUser(seat);
    const { replace, limits, outdated } = compare({ box: warmBox(entry, seat, view()), seen: box, user, imageId });
    return replace.length === 0 && limits.length === 0 && !outdated ? { seat, user, box } : undefined;
  }

  async function makeAt(entry: HostWarm, seat: string, signal: AbortSignal): Promise<WarmSandbox> {
    const user = state.hostUser(seat);
    const { workspace } = placeOfSeat(seat);
    await folders.clear(workspace);
    await world.workspaces.create(workspace, user);
    await kits.write(seatId(seat), EMPTY, user);
    await sockets.open(seatId(seat), user);
    const container = await sandbox.create({ ...warmBox(entry, seat, view()), user }, signal);
    await sandbox.start(container, signal);
    forgetListing(world);
    if (!(await heard(seat, container, signal))) throw new BeigeError("unavailable", "the warm sandbox says nothing");
    await probe(container, signal);
    const found = await fitting(entry, seat, container);
    if (found === undefined) throw new BeigeError("unavailable", "the engine made another sandbox than was asked for");
    return found;
  }

  async function leave(agent: AgentId): Promise<void> {
    const seat = seats.of(agent.uid);
    if (seat === undefined || seats.holder(seat) !== agent.uid) return;
    await folders.bringHome(workspaceFolder(home, agent), placeOfAgent(agent).workspace);
    await folders.tidy(seatFolder(home, seat));
    seats.drop(seat);
  }

  return {
    fitting,
    leave,
    make: (entry, seat, signal) =>
      recorded("warm", `make a warm sandbox of ${entry.image}`, () => {
        const limit = new AbortController();
        const timer = clock.after(MAKE_MS, () =>
          limit.abort(new BeigeError("timeout", `the warm sandbox took longer than ${MAKE_MS / 1000} s`)),
        );
        const stop = (): void => limit.abort(signal.reason);
        signal.addEventListener("abort", stop, { once: true });
        return makeAt(entry, seat, limit.signal).finally(() => {
          timer.cancel();
          signal.removeEventListener("abort", stop);
        });
      }),
    greet: ({ seat, user, box }, signal) =>
      recorded("warm", `take over warm container ${box.id.slice(0, 12)}`, async () => {
        await sockets.open(seatId(seat), user);
        if (!(await heard(seat, box.id, signal))) return false;
        await probe(box.id, signal);
        return true;
      }),
    removeBox: (id, signal) =>
      recorded("remove", `remove container ${id.slice(0, 12)} of the warm pool`, async () => {
        await sandbox.remove(id, signal);
        forgetListing(world);
      }),
    clearSeat: (seat) =>
      recorded("warm", "remove the folders of a warm sandbox", async () => {
        await sockets.close(seat);
        await kits.remove(seatId(seat));
        await folders.clear(placeOfSeat(seat).sockets);
        await folders.clear(seatFolder(home, seat));
        seats.drop(seat);
      }),
    vacate: (agent) =>
      recorded("leave", `keep the workspace of ${agent.name}, which is gone`, async () => {
        await sockets.close(agent.uid);
        await kits.remove(agent);
        await leave(agent);
      }),
    point: (agent) => folders.point(workspaceFolder(home, agent), placeOfAgent(agent).workspace),
  };
}
