// Gateways that are killed at any moment: their commands go on, and the next gateway has every byte of them once, and the exit.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openGround, SOCKET, type Ground } from "./ground.ts";
import type { Victim } from "./victim.ts";

/** More of them when asked: each is a few seconds. */
const ROUNDS = Number(process.env["BEIGE_KILL_ROUNDS"] ?? 3);
const victimPath = new URL("./victim.ts", import.meta.url).pathname;
const LINES = 40;
const script = `i=0; while [ $i -lt ${LINES} ]; do head -c 26215 /dev/zero | tr '\\0' 'x'; echo "line $i"; echo "err $i" >&2; i=$((i+1)); sleep 0.1; done; exit 7`;
const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
const expected = (key: string): object => ({
  key,
  exit: { kind: "code", code: 7 },
  stdout: hash(Array.from({ length: LINES }, (_, i) => `${"x".repeat(26_215)}line ${i}\n`).join("")),
  stderr: hash(Array.from({ length: LINES }, (_, i) => `err ${i}\n`).join("")),
});

let ground: Ground;
beforeAll(() => {
  ground = openGround();
});
afterAll(() => ground?.cleanup());

/** Runs one gateway; it is killed after `lifeMs` unless it is done before. */
async function gateway(victim: Victim, lifeMs: number): Promise<string> {
  const child = spawn(process.execPath, [victimPath, JSON.stringify(victim)], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (data: Buffer) => (said += data.toString()));
  const timer = setTimeout(() => child.kill("SIGKILL"), lifeMs);
  await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  return said;
}

for (const [name, keys] of [
  ["one command", ["a"]],
  ["eight commands at once", Array.from({ length: 8 }, (_, i) => `k${i}`)],
] as const) {
  test(
    `${name}, gateways killed at random moments: byte-exact output and the right exit`,
    async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const container = await ground.up({ memoryBytes: 256 << 20 });
        const folder = mkdtempSync(join(tmpdir(), "beige-resume-"));
        let kills = 0;
        for (let epoch = 1; !existsSync(join(folder, "done")); epoch++) {
          const said = await gateway(
            { socketPath: SOCKET, container, folder, epoch, keys, script },
            epoch > 8 ? 60_000 : 500 + Math.random() * 1200,
          );
          expect(said).toBe("");
          kills += 1;
          await pause(Math.random() * 300);
        }
        expect(JSON.parse(readFileSync(join(folder, "done"), "utf8"))).toStrictEqual(keys.map(expected));
        expect(kills).toBeGreaterThan(1);
        rmSync(folder, { recursive: true, force: true });
        await ground.sandbox.remove(container);
      }
    },
    100_000 + ROUNDS * 20_000,
  );
}
