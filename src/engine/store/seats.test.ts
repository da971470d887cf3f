import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { manualClock, seededRandom, silentLog } from "../fixture.ts";
import { openStore, type Store } from "../store.ts";

let home: string;
let store: Store;
const open = (owner = { uid: 0, gid: 0 }): Store => {
  store = openStore({ home, clock: manualClock(), random: seededRandom(7), log: silentLog, owner });
  return store;
};
const reopen = (): Store => {
  store.close();
  return open();
};
const travel = { namespace: "default", name: "travel", uid: "uid-travel" };

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-seats-"));
  open();
});
afterEach(() => {
  store.close();
  rmSync(home, { recursive: true, force: true });
});

test("a claim moves seat, user and container to the agent at once, and all of it is there after a restart", () => {
  const { agents } = store;
  agents.seats.make("seat-1");
  const user = agents.hostUser("seat-1");
  expect(agents.seats.of("seat-1")).toBe("seat-1");
  expect(agents.seats.claim("seat-1", travel, "container-1")).toBe(true);
  for (const open of [() => agents, () => reopen().agents]) {
    const now = open();
    expect(now.seats.of(travel.uid)).toBe("seat-1");
    expect(now.seats.of("seat-1")).toBeUndefined();
    expect(now.seats.holder("seat-1")).toBe(travel.uid);
    expect(now.seats.all()).toStrictEqual([{ id: "seat-1", holder: travel }]);
    expect(now.active(travel.uid)).toBe("container-1");
    expect(now.hostUser(travel.uid)).toStrictEqual(user);
    expect(now.seats.fresh(travel.uid)).toBe(false);
  }
  expect(store.agents.hostUser("another").uid).toBe(user.uid + 1);
});

test("a seat has one holder in its life, an agent one seat, and a refused claim changes nothing", () => {
  const { agents } = store;
  for (const seat of ["seat-1", "seat-2"]) {
    agents.seats.make(seat);
    agents.hostUser(seat);
  }
  expect(agents.seats.claim("seat-1", travel, "c1")).toBe(true);
  const other = { ...travel, name: "other", uid: "uid-other" };
  expect(agents.seats.claim("seat-1", other, "c1")).toBe(false);
  expect(agents.seats.claim("seat-2", travel, "c2")).toBe(false);
  expect(agents.seats.claim("nowhere", other, "c3")).toBe(false);
  agents.hostUser("uid-started");
  expect(agents.seats.claim("seat-2", { ...travel, uid: "uid-started" }, "c2")).toBe(false);
  agents.setActive("uid-serving", "c9");
  expect(agents.seats.claim("seat-2", { ...travel, uid: "uid-serving" }, "c2")).toBe(false);
  expect([agents.active(other.uid), agents.active("uid-started"), agents.seats.of(other.uid)]).toEqual([undefined, undefined, undefined]);
  expect(reopen().agents.seats.all()).toStrictEqual([{ id: "seat-1", holder: travel }, { id: "seat-2" }]);
});

test("a seat that is dropped is nobody's, and the number of its user is not given again", () => {
  const { agents } = store;
  agents.seats.make("seat-1");
  const { uid } = agents.hostUser("seat-1");
  agents.seats.drop("seat-1");
  agents.seats.make("seat-2");
  expect(agents.hostUser("seat-2").uid).toBe(uid + 1);
  agents.seats.claim("seat-2", travel, "c");
  agents.seats.drop("seat-2");
  expect([agents.seats.of(travel.uid), agents.seats.all()]).toEqual([undefined, []]);
  expect(reopen().agents.hostUser(travel.uid).uid).toBe(uid + 1);
});

test("where the gateway is not root there are no users to move", () => {
  store.close();
  const { agents } = open({ uid: 1000, gid: 1000 });
  agents.seats.make("seat-1");
  expect(agents.seats.claim("seat-1", travel, "c")).toBe(true);
  expect(agents.hostUser(travel.uid)).toEqual({ uid: 1000, gid: 1000 });
});
