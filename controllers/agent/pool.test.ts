import { expect, test } from "vitest";
import type { HostWarm } from "../../schemas/types.ts";
import type { AgentId } from "../../src/core/call.ts";
import { createPool, type Pool, type PoolDeps } from "./pool.ts";

const GONE: AgentId = { namespace: "default", name: "travel", uid: "uid-travel" };

/** A pool with one held seat, whose agent is gone and whose workspace cannot go home for the given reason. */
function heldPool(
  why: () => string | undefined,
  entries: readonly HostWarm[] = [],
): { readonly tick: () => Promise<number>; readonly said: string[]; readonly pool: Pool } {
  const said: string[] = [];
  const seats = new Map([["seat-1", GONE]]);
  const nothing = async (): Promise<void> => undefined;
  const deps = {
    entries: () => entries,
    exists: () => false,
    view: () => ({}),
    folders: {
      point: nothing,
      tidy: nothing,
      clear: nothing,
      bringHome: async () => {
        const reason = why();
        if (reason !== undefined) throw new Error(reason);
      },
    },
    world: {
      home: "/h",
      store: "s",
      clock: { monotonic: () => 0 },
      random: { uuid: () => "call" },
      log: { warn: (message: string, fields: object) => said.push(`${message} ${JSON.stringify(fields)}`), error: () => undefined },
      control: { begin: nothing, end: nothing },
      sandbox: { list: async () => [] },
      sockets: { close: nothing },
      kits: { remove: nothing },
      state: {
        seats: {
          all: () => [...seats].map(([id, holder]) => ({ id, holder })),
          of: (uid: string) => (uid === GONE.uid && seats.has("seat-1") ? "seat-1" : undefined),
          holder: (seat: string) => seats.get(seat)?.uid,
          drop: (seat: string) => seats.delete(seat),
        },
        active: () => undefined,
      },
    },
  } as unknown as PoolDeps;
  const pool = createPool(deps);
  return { tick: () => pool.tick(new AbortController().signal), said, pool };
}

test("a seat that cannot be left is told once for each reason, tried at every look, and left when it can be", async () => {
  let reason: string | undefined = "something is there";
  let tried = 0;
  const { tick, said } = heldPool(() => {
    tried += 1;
    return reason;
  });
  for (let look = 0; look < 5; look += 1) await tick();
  expect([tried, said.length]).toEqual([5, 1]);
  expect(said[0]).toContain("something is there");
  reason = "the disk is full";
  for (let look = 0; look < 5; look += 1) await tick();
  expect([tried, said.length]).toEqual([10, 2]);
  reason = undefined;
  for (let look = 0; look < 3; look += 1) await tick();
  expect([tried, said.length]).toEqual([11, 2]);
});

test("what no agent could ever fit is not made, and the reason is with its level", async () => {
  const env = { BEIGE_AGENT: "x" };
  const { tick, pool, said } = heldPool(() => undefined, [{ image: "a", count: 1, env }]);
  for (let look = 0; look < 3; look += 1) await tick();
  const problem = "it waits in vain: no agent can set variable BEIGE_AGENT";
  expect(pool.levels()).toStrictEqual([{ image: "a", wanted: 1, ready: 0, problem }]);
  expect(said).toHaveLength(1);
});
