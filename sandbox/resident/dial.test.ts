// The connection that a supervisor makes itself: only the one that knows the secret is taken, and whatever goes wrong there costs nothing.
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openRig, residentOf, whole, type Rig } from "../../test/resident/rig.ts";
import { systemClock } from "../../src/adapters/clock.ts";
import type { ExecHandle } from "../../src/core/sandbox.ts";
import type { Resident, ResidentOptions } from "../resident.ts";
import { who } from "../../test/resident/strangers.ts";
import { awaitDial } from "./dial.ts";
import { readWho } from "./frames.ts";

const rigs: Rig[] = [];
const gateways: Resident[] = [];
const folder = mkdtempSync(join(tmpdir(), "beige-dial-"));
afterEach(async () => {
  for (const one of gateways.splice(0)) one.close();
  for (const rig of rigs.splice(0)) {
    await rig.end();
    expect(rig.said()).toBe("");
  }
  rmSync(folder, { recursive: true, force: true });
});
const open = (): Rig => {
  const rig = openRig();
  rigs.push(rig);
  return rig;
};
const gateway = (rig: Rig, more: Partial<ResidentOptions> = {}): Resident => {
  const one = residentOf(rig, { dial: rig.dial, ...more });
  gateways.push(one);
  return one;
};
const sh = (on: Resident, script: string): Promise<ExecHandle> =>
  on.exec("box", { command: ["sh", "-c", script], cwd: "/tmp", timeoutMs: 20_000 });
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

interface Impostor {
  readonly socket: Socket;
  heard: number;
  readonly closed: Promise<void>;
}
function impostor(path: string, says: Uint8Array): Impostor {
  const socket = connect(path, () => void (says.length > 0 && socket.write(says)));
  const one: Impostor = { socket, heard: 0, closed: new Promise((done) => socket.once("close", () => done())) };
  socket.on("error", () => undefined).on("data", (data: Buffer) => (one.heard += data.length));
  return one;
}

test("impostors of every kind get not one byte and no time, and the supervisor that knows the secret gets through the crowd", async () => {
  const rig = open();
  const lies = [Buffer.alloc(0), randomBytes(48), randomBytes(4000), who(randomBytes(16)), who(Buffer.alloc(15)), Buffer.from("BEG1w")];
  const crowd: Impostor[] = [];
  const over = new AbortController();
  const flood = (async () => {
    for (let i = 0; !over.signal.aborted; i++) {
      if (existsSync(rig.place.path)) crowd.push(...lies.map((lie) => impostor(rig.place.path, lie)));
      await pause(i % 8 === 0 ? 1 : 0);
    }
  })();
  for (let round = 0; round < 8; round++) {
    const resident = gateway(rig, { epoch: round + 1 });
    const done = await whole(await sh(resident, "sleep 0.1; cat"), Buffer.from("round"));
    expect([done.stdout.toString(), done.exit]).toStrictEqual(["round", { kind: "code", code: 0 }]);
    resident.close();
  }
  over.abort();
  await flood;
  await Promise.all(crowd.map(({ closed }) => closed));
  expect(crowd.length).toBeGreaterThan(20);
  expect(crowd.filter(({ heard }) => heard > 0)).toStrictEqual([]);
  expect(rig.dialled()).toBeGreaterThan(0);
}, 30_000);

test("the socket is its owner's alone, shut as soon as one is found or the time is up, and a stale one is no hindrance", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "beige-dial-")), "supervisor.sock");
  const run = (come: boolean): Promise<unknown> => {
    const secret = randomBytes(16);
    const say = (body: Buffer): void => {
      expect([statSync(path).mode & 0o777, body.subarray(16).toString()]).toStrictEqual([0o600, path]);
      if (come) impostor(path, who(body.subarray(0, 16)));
    };
    return awaitDial({ place: { path, inside: path }, say, secret, clock: systemClock, signal: new AbortController().signal });
  };
  const silent = run(false);
  await pause(50);
  const still = Array.from({ length: 40 }, () => impostor(path, Buffer.alloc(0)));
  expect(await silent).toBe(undefined);
  await Promise.all(still.map(({ closed }) => closed));
  expect(existsSync(path)).toBe(false);
  const found = (await run(true)) as { destroy(): void } | undefined;
  expect(found).not.toBe(undefined);
  expect(existsSync(path)).toBe(false);
  found?.destroy();
  rmSync(join(path, ".."), { recursive: true });
}, 10_000);

test("where no socket can be, and where nobody can come, the answer is soon that there is none", async () => {
  const at = (path: string): Promise<unknown> =>
    awaitDial({
      place: { path, inside: path },
      say: () => undefined,
      secret: randomBytes(16),
      clock: systemClock,
      signal: AbortSignal.timeout(200),
    });
  expect(await Promise.all([at("/no/such/folder/s"), at(`/tmp/${"x".repeat(120)}`), at("/tmp/beige-dial-none")])).toStrictEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("a supervisor that does not come, and one that comes and says nothing, leave the commands on the first connection", async () => {
  const rig = open();
  let asked = 0;
  const shy = gateway(rig, { epoch: 1, dial: () => Promise.resolve((asked++, undefined)) });
  for (let round = 0; round < 4; round++) {
    expect((await whole(await sh(shy, "echo here"))).stdout.toString()).toBe("here\n");
    rig.cut();
    await pause(30);
  }
  expect(asked).toBe(2);
  shy.close();
  const mute = { write: () => undefined, start: () => undefined, destroy: () => undefined };
  const on = gateway(rig, { epoch: 2, dial: () => Promise.resolve(mute) });
  const handle = await sh(on, "for i in 1 2 3; do echo $i; sleep 0.1; done; cat; exit 5");
  const done = await whole(handle, Buffer.from("in"));
  expect([done.stdout.toString(), done.exit]).toStrictEqual(["1\n2\n3\nin", { kind: "code", code: 5 }]);
}, 30_000);

test("a change that fails while nothing else can be opened leaves commands waiting, not forgotten", async () => {
  const rig = open();
  let down = false;
  let changes = 0;
  const on = gateway(rig, {
    // What asks whether all was read gets no answer.
    connect: async () => {
      if (down) throw new Error("the engine does not answer");
      const carrier = await rig.connect();
      return { ...carrier, write: (data) => void (Buffer.from(data).includes("BEG1P") || carrier.write(data)) };
    },
    dial: async (...args) => {
      changes += 1;
      const found = await rig.dial(...args);
      setTimeout(() => (down = true), 200);
      setTimeout(() => (down = false), 2800);
      return changes > 1 ? undefined : found;
    },
  });
  const handle = await sh(on, "for i in 1 2 3 4; do echo $i; sleep 1; done; exit 6");
  const done = await whole(handle);
  expect([done.stdout.toString(), done.exit]).toStrictEqual(["1\n2\n3\n4\n", { kind: "code", code: 6 }]);
  expect(changes).toBeGreaterThan(1);
}, 20_000);

test("signals and input that are sent while the connections change arrive once and in order", async () => {
  const rig = open();
  for (let round = 0; round < 12; round++) {
    const on = gateway(rig, { epoch: round + 1 });
    const handle = await sh(on, "trap 'echo got' USR1; echo ready; while read line; do echo $line; [ $line = 60 ] && exit 3; done");
    let said = "";
    const sent = (async () => {
      for (let i = 1; i <= 60; i++) {
        await handle.write(Buffer.from(`${i}\n`));
        if (i % 20 === 0) await pause(1);
      }
    })();
    // Busybox and dash both break off a read for a trap; the line is not lost then.
    for await (const { stream, data } of handle.output) if (stream === "stdout") said += Buffer.from(data).toString();
    await sent.catch(() => undefined);
    expect(said).toBe(`ready\n${Array.from({ length: 60 }, (_, i) => `${i + 1}\n`).join("")}`);
    expect(await handle.exit).toStrictEqual({ kind: "code", code: 3 });
    const trapped = await sh(on, "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.01; done");
    said = "";
    let told = false;
    for await (const { stream, data } of trapped.output) {
      if (stream === "stdout") said += Buffer.from(data).toString();
      if (said === "ready\n" && !told) trapped.signal?.(10);
      told = said !== "";
    }
    expect([said, await trapped.exit]).toStrictEqual(["ready\ngot\n", { kind: "code", code: 4 }]);
    on.close();
  }
  expect(rig.dialled()).toBeGreaterThan(5);
}, 60_000);

test("what is not exactly the frame with a secret is nobody", () => {
  const secret = randomBytes(16);
  expect(readWho(who(secret))).toStrictEqual(secret);
  expect(readWho(Buffer.concat([who(secret), Buffer.alloc(1)]))).toBe(undefined);
  for (let at = 0; at < 32; at++) {
    const bent = who(secret);
    bent[at] = (bent[at] ?? 0) ^ 1;
    expect(readWho(bent)).toBe(undefined);
  }
});
