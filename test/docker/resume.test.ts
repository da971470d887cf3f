// Gateways that are killed at any moment, on both carriers: their commands go on, and the next gateway has every byte once, and the exit.
import { appendFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openGround, SOCKET, type Ground } from "./ground.ts";
import { killing, randomFile, sha, type Killed } from "./kills.ts";
import type { Victim } from "./victim.ts";

/** A few of each here; the numbers that were designed for with BEIGE_KILLS=20, which takes many minutes. */
const FULL = Number(process.env["BEIGE_KILLS"] ?? 0);
const SECONDS = FULL > 0 ? 20 : 2;
const LINES = SECONDS * 10;
const MB = 1_000_000;
const script = `i=0; while [ $i -lt ${LINES} ]; do head -c 26215 /dev/zero | tr '\\0' 'x'; echo "line $i"; echo "err $i" >&2; i=$((i+1)); sleep 0.1; done; exit 7`;
const lines = (of: (i: number) => string): string => sha(Array.from({ length: LINES }, (_, i) => of(i)).join(""));
const EXPECTED = {
  exit: { kind: "code", code: 7 },
  stdout: lines((i) => `${"x".repeat(26_215)}line ${i}\n`),
  stderr: lines((i) => `err ${i}\n`),
};
const between = (from: number, to: number) => (): number => from + Math.random() * (to - from);
const eight = Array.from({ length: 8 }, (_, i) => `k${i}`);

let ground: Ground;
beforeAll(() => {
  ground = openGround();
});
afterAll(() => ground?.cleanup());

/** What was counted, for whoever runs the full numbers. */
function tell(name: string, killed: readonly Killed[]): void {
  const sum = (of: (one: Killed) => number): number => killed.reduce((all, one) => all + of(one), 0);
  const text = `${name}: ${killed.length} exact, ${sum((one) => one.kills)} kills, ${sum((one) => one.attached)} attached, ${sum((one) => one.dialled)} dialled, ${sum((one) => one.cuts)} cut`;
  if (FULL > 0) appendFileSync(process.env["BEIGE_KILLS_REPORT"] ?? "/dev/stderr", `${text}\n`);
}

async function times<T>(count: number, atOnce: number, run: () => Promise<T>): Promise<readonly T[]> {
  const all: T[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next++ < count) all.push(await run());
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return all;
}

for (const carrier of ["attach", "dial"] as const) {
  describe(`over ${carrier}`, () => {
    const used = (killed: readonly Killed[]): void => {
      for (const one of killed) expect(one.dialled > 0).toBe(carrier === "dial");
    };
    const many = async (
      rounds: number,
      keys: readonly string[],
      more: { readonly bytes: number; readonly most: number; readonly chaos?: boolean },
    ) => {
      const { path, hash } = randomFile(ground.folder, more.bytes);
      const through = { exit: { kind: "code", code: 0 }, stdout: hash, stderr: sha("") };
      return times(rounds, 2, async () => {
        const container = await ground.up({ memoryBytes: 256 << 20, cpus: 2 });
        const setting: Omit<Victim, "folder" | "epoch"> = { socketPath: SOCKET, container, carrier, keys, command: ["cat"], input: path };
        const { most, chaos = false } = more;
        const killed = await killing({ ...setting, chaos, most, lifeMs: between(60, 310), deadMs: between(0, 20) });
        expect(killed.results).toStrictEqual(keys.map((key) => ({ key, ...through })));
        await ground.sandbox.remove(container);
        return killed;
      });
    };

    test(
      `a command of ${SECONDS} s, killed once at a random moment`,
      async () => {
        const killed = await times(FULL || 2, FULL > 0 ? 5 : 2, async () => {
          const container = await ground.up({ memoryBytes: 128 << 20 });
          const life = between(200, SECONDS * 1050);
          const setting = { socketPath: SOCKET, container, carrier, keys: ["a"], command: ["sh", "-c", script] };
          const one = await killing({ ...setting, most: 1, lifeMs: life, deadMs: between(0, FULL > 0 ? 3000 : 500) });
          expect(one.results).toStrictEqual([{ key: "a", ...EXPECTED }]);
          await ground.sandbox.remove(container);
          return one;
        });
        tell(`${carrier}: command of ${SECONDS} s`, killed);
        used(killed);
      },
      FULL > 0 ? 600_000 : 60_000,
    );

    test(
      "20 MB through cat, in and out, killed again and again",
      async () => {
        const killed = await many(FULL > 0 ? 6 : 1, ["a"], { bytes: 20 * MB, most: FULL > 0 ? 20 : 3 });
        tell(`${carrier}: 20 MB through cat`, killed);
        expect(killed.reduce((sum, { kills }) => sum + kills, 0)).toBeGreaterThan(0);
        used(killed);
      },
      FULL > 0 ? 600_000 : 60_000,
    );

    test(
      "eight of them at once in one sandbox",
      async () => {
        const killed = await many(FULL > 0 ? 4 : 1, eight, { bytes: (FULL > 0 ? 20 : 2) * MB, most: FULL > 0 ? 25 : 2 });
        tell(`${carrier}: eight at once`, killed);
        expect(killed.reduce((sum, { kills }) => sum + kills, 0)).toBeGreaterThan(0);
        used(killed);
      },
      FULL > 0 ? 900_000 : 60_000,
    );

    test(
      "eight at once, with frames that are cut and connections that are dropped",
      async () => {
        const killed = await many(FULL > 0 ? 4 : 1, eight, { bytes: (FULL > 0 ? 20 : 1) * MB, most: FULL > 0 ? 25 : 2, chaos: true });
        tell(`${carrier}: eight at once, torn`, killed);
        expect(killed.reduce((sum, { cuts }) => sum + cuts, 0)).toBeGreaterThan(0);
        used(killed);
      },
      FULL > 0 ? 900_000 : 60_000,
    );
  });
}
