// What the supervisor and this side of it promise, whatever binary is under test.
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { ExecExit, ExecHandle } from "../../src/core/sandbox.ts";
import type { Resident, ResidentOptions } from "../../sandbox/resident.ts";
import type { Carrier } from "../../sandbox/resident/greet.ts";
import { memoryShelf, openRig, residentOf, whole, type Rig } from "./rig.ts";

const OK: ExecExit = { kind: "code", code: 0 };
const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const BIG = Buffer.concat(Array.from({ length: 20 }, () => randomBytes(1 << 20)));

export function residentSuite(name: string, binary: () => string | undefined, carrier: "attach" | "dial" = "attach"): void {
  describe(name, () => {
    /** Nobody else on this machine sleeps so long. */
    const nap = 100_000 + process.pid;
    const rigs: Rig[] = [];
    const gateways: Resident[] = [];
    afterEach(async () => {
      for (const one of gateways.splice(0)) one.close();
      const were = rigs.splice(0);
      for (const rig of were) {
        await rig.end();
        expect(rig.said()).toBe("");
      }
    });
    const open = (env?: NodeJS.ProcessEnv): Rig => {
      const rig = openRig(binary(), env);
      rigs.push(rig);
      return rig;
    };
    const gateway = (rig: Rig, more?: Partial<ResidentOptions>): Resident => {
      const one = residentOf(rig, { ...(carrier === "dial" ? { dial: rig.dial } : {}), ...more });
      gateways.push(one);
      return one;
    };
    const sh = (on: Resident, script: string, timeoutMs = 20_000): Promise<ExecHandle> =>
      on.exec("box", { command: ["sh", "-c", script], cwd: "/tmp", timeoutMs });

    test(`commands are carried by ${carrier}`, async () => {
      const rig = open();
      const on = gateway(rig);
      expect((await whole(await sh(on, "echo first"))).stdout.toString()).toBe("first\n");
      await expect.poll(() => rig.dialled()).toBe(carrier === "dial" ? 1 : 0);
      expect((await whole(await sh(on, "echo second"))).stdout.toString()).toBe("second\n");
    });

    test("a command's streams, code, signal, folder and variables come as they are", async () => {
      const on = gateway(open());
      const handle = await on.exec("box", {
        command: ["sh", "-c", 'pwd; echo "$X" >&2; exit 7'],
        cwd: "/tmp",
        env: { X: "ü=1" },
        timeoutMs: 9e3,
      });
      expect(await whole(handle)).toStrictEqual({
        stdout: Buffer.from("/tmp\n"),
        stderr: Buffer.from("ü=1\n"),
        exit: { kind: "code", code: 7 },
      });
      expect((await whole(await sh(on, "kill -9 $$"))).exit).toStrictEqual({ kind: "signal", signal: 9 });
      const absent = await whole(await on.exec("box", { command: ["no-such-program"], cwd: "/", timeoutMs: 9e3 }));
      expect([absent.exit, absent.stderr.toString()]).toStrictEqual([
        { kind: "code", code: 127 },
        "beige: no-such-program: command not found\n",
      ]);
    });

    test("eight times 20 MB go in and come out unchanged at once", async () => {
      const on = gateway(open());
      const run = async (): Promise<string> => {
        const done = await whole(await on.exec("box", { command: ["cat"], cwd: "/", timeoutMs: 60_000 }), BIG);
        expect(done.exit).toStrictEqual(OK);
        return hash(done.stdout);
      };
      expect(new Set(await Promise.all(Array.from({ length: 8 }, run)))).toStrictEqual(new Set([hash(BIG)]));
    }, 60_000);

    test("thousands of changes between the streams do not stop a command that says little", async () => {
      const on = gateway(open());
      const done = await whole(await sh(on, "i=0; while [ $i -lt 3000 ]; do echo o; echo e >&2; i=$((i+1)); done"));
      expect([done.exit, done.stdout.length, done.stderr.length]).toStrictEqual([OK, 6000, 6000]);
    });

    test("connections that are cut anywhere, in the middle of frames, lose and repeat no byte", async () => {
      const rig = open();
      const on = gateway(rig);
      let left = 25;
      let until = Date.now() + 300;
      rig.meddle = (chunk) => {
        if (left <= 0 || Date.now() < until || Math.random() < 0.7) return { pass: chunk, cut: false };
        left -= 1;
        until = Date.now() + 10 + Math.random() * 80;
        return { pass: chunk.subarray(0, Math.floor(Math.random() * chunk.length)), cut: true };
      };
      const input = BIG.subarray(0, 6 << 20);
      const runs = Array.from({ length: 4 }, async () => {
        const done = await whole(await on.exec("box", { command: ["cat"], cwd: "/", timeoutMs: 90_000 }), input);
        return [done.exit, hash(done.stdout)];
      });
      const mixed = whole(
        await sh(on, "i=0; while [ $i -lt 200 ]; do echo line $i; echo err $i >&2; i=$((i+1)); sleep 0.005; done; exit 3", 60_000),
      );
      for (const done of await Promise.all(runs)) expect(done).toStrictEqual([OK, hash(input)]);
      const text = await mixed;
      const lines = (word: string): string => Array.from({ length: 200 }, (_, i) => `${word} ${i}\n`).join("");
      expect([text.stdout.toString(), text.stderr.toString(), text.exit]).toStrictEqual([
        lines("line"),
        lines("err"),
        { kind: "code", code: 3 },
      ]);
      expect(rig.opened()).toBeGreaterThan(5);
    }, 90_000);

    test("bytes from nobody among the frames, magic words included, change no command", async () => {
      const rig = open();
      const on = gateway(rig);
      const stop = new AbortController();
      const noise = (async () => {
        while (!stop.signal.aborted) {
          rig.inject(Buffer.concat([randomBytes(Math.floor(Math.random() * 300)), Buffer.from("BEG1E"), randomBytes(40)]));
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })();
      const input = BIG.subarray(0, 1 << 20);
      for (let i = 0; i < 5; i++) {
        const done = await whole(await on.exec("box", { command: ["cat"], cwd: "/", timeoutMs: 60_000 }), input);
        expect([done.exit, hash(done.stdout)]).toStrictEqual([OK, hash(input)]);
      }
      stop.abort();
      await noise;
    }, 60_000);

    test("a limit, a kill and a reader that leaves each end a tree that ignores signals within a second", async () => {
      const on = gateway(open());
      const script = "trap '' TERM HUP INT; (setsid sleep 345 &); sleep 345";
      const began = performance.now();
      const limited = await whole(await sh(on, script, 300));
      expect(limited.exit).toStrictEqual({ kind: "timeout" });
      expect(performance.now() - began).toBeLessThan(1300);
      const killed = await sh(on, script);
      setTimeout(() => killed.kill(), 50);
      expect((await whole(killed)).exit).toStrictEqual({ kind: "cancelled" });
      const left = await sh(on, `${script} & yes`);
      for await (const piece of left.output) if (piece.data.length > 0) break;
      expect(await left.exit).toStrictEqual({ kind: "cancelled" });
    });

    test("a command that stops or ends its own keeper gains nothing: its limit holds, and it is lost with all that it left", async () => {
      const on = gateway(open());
      const stopped = await whole(await sh(on, `kill -STOP $PPID; sleep ${nap}`, 500));
      expect(stopped.exit).toStrictEqual({ kind: "timeout" });
      const ended = await whole(await sh(on, `(setsid sleep ${nap} &); kill -KILL $PPID; sleep ${nap}`));
      expect(ended.exit).toMatchObject({ kind: "lost", reason: "its keeper was ended from inside the sandbox" });
      await expect.poll(async () => (await whole(await sh(on, `pgrep -f '^sleep ${nap}' || true`))).stdout.toString()).toBe("");
    });

    test("signals reach the command's group, and a terminal has its size, changes it and ends its input", async () => {
      const on = gateway(open());
      const trapped = await sh(on, "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.05; done");
      let said = "";
      // The shell has a word of its own on what became of its sleep.
      for await (const { stream, data } of trapped.output) {
        if (stream === "stdout") said += Buffer.from(data).toString();
        if (said === "ready\n") trapped.signal?.(10);
      }
      expect([said, await trapped.exit]).toStrictEqual(["ready\ngot\n", { kind: "code", code: 4 }]);
      const terminal = { rows: 33, columns: 111 };
      const command = [
        "sh",
        "-c",
        'trap \'stty size\' WINCH; test -t 0 && stty size; while [ -z "$line" ]; do read line; done; echo "[$line]"; cat; echo end',
      ];
      const tty = await on.exec("box", { command, cwd: "/", timeoutMs: 9e3, terminal });
      let shown = "";
      let step = 0;
      for await (const { data } of tty.output) {
        shown += Buffer.from(data).toString();
        if (step === 0 && shown.includes("33 111")) {
          step = 1;
          tty.resize?.({ rows: 44, columns: 222 });
        }
        if (step === 1 && shown.includes("44 222")) {
          step = 2;
          await tty.write(Buffer.from("hello\n"));
          await tty.end();
        }
        if (step === 0 && shown.includes("44 222")) step = 2;
      }
      expect(shown.replaceAll("\r", "")).toMatch(/33 111\n[\s\S]*44 222\n[\s\S]*\[hello\]\n[\s\S]*end\n$/);
      expect(await tty.exit).toStrictEqual(OK);
    });

    test("of many sizes that came while the connection was broken the last one holds", async () => {
      const rig = open();
      const on = gateway(rig);
      const command = ["sh", "-c", "echo up; read line; stty size"];
      const tty = await on.exec("box", { command, cwd: "/", timeoutMs: 9e3, terminal: { rows: 24, columns: 80 } });
      let shown = "";
      for await (const { data } of tty.output) {
        if (shown === "" && Buffer.from(data).toString() !== "") {
          rig.cut();
          await new Promise((done) => setTimeout(done, 0));
          for (let at = 0; at < 1000; at += 1) tty.resize?.({ rows: 20 + (at % 77), columns: 50 + at });
          tty.resize?.({ rows: 45, columns: 123 });
          await tty.write(Buffer.from("\n"));
        }
        shown += Buffer.from(data).toString();
      }
      expect(shown.replaceAll("\r", "")).toBe("up\n\n45 123\n");
    });

    test("a newer gateway ends the older one's part for good, and goes on itself", async () => {
      const rig = open();
      const old = gateway(rig, { epoch: 1 });
      const waiting = whole(await sh(old, "sleep 30"));
      const next = gateway(rig, { epoch: 2 });
      expect((await whole(await sh(next, "echo new"))).stdout.toString()).toBe("new\n");
      rig.cut();
      expect((await waiting).exit).toMatchObject({ kind: "lost", reason: "a newer gateway has it" });
      expect((await whole(await sh(next, "echo still"))).stdout.toString()).toBe("still\n");
    });

    test("250 commands at once share a bounded memory, and one more is refused", async () => {
      const rig = open();
      const on = gateway(rig);
      const handles = await Promise.all(Array.from({ length: 250 }, (_, i) => sh(on, `head -c 400000 /dev/zero; echo ${i}`, 60_000)));
      await expect(sh(on, "true")).rejects.toMatchObject({ code: "exhausted" });
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const rss = Number(
        /VmRSS:\s+(\d+)/.exec(
          await import("node:fs").then(({ readFileSync }) => readFileSync(`/proc/${rig.child.pid}/status`, "utf8")),
        )?.[1],
      );
      if (binary() === undefined) expect(rss).toBeLessThan(40 * 1024);
      const done = await Promise.all(handles.map((handle) => whole(handle)));
      expect(done.every(({ stdout, exit }, i) => exit.kind === "code" && stdout.length === 400_000 + `${i}\n`.length)).toBe(true);
    }, 60_000);

    test("a command with a key is taken up by the next gateway: every byte once, and its exit", async () => {
      const rig = open();
      const folder = mkdtempSync(join(tmpdir(), "beige-kept-"));
      const shelf = memoryShelf();
      const kept = { shelf, folder: join(folder, "commands") };
      let dead = false;
      const connect = (): Promise<Carrier> => (dead ? Promise.reject(new Error("killed")) : rig.connect());
      const first = gateway(rig, { epoch: 1, kept, connect });
      const script = "i=0; while [ $i -lt 30 ]; do head -c 30000 /dev/zero | tr '\\0' a; echo $i >&2; sleep 0.04; i=$((i+1)); done; exit 9";
      const handle = await first.exec("box", { command: ["sh", "-c", script], cwd: "/", timeoutMs: 30_000, key: "call-1" });
      await handle.end();
      let had = 0;
      for await (const { data } of handle.output) {
        had += data.length;
        if (had > 400_000) {
          // As a kill -9: nothing more is said or written by it.
          dead = true;
          rig.cut();
          break;
        }
      }
      expect(await gateway(rig, { epoch: 2, kept }).rejoin("box", "call-2")).toBe(undefined);
      const next = gateway(rig, { epoch: 3, kept });
      const again = await next.rejoin("box", "call-1");
      if (again === undefined) throw new Error("not there");
      expect(await next.rejoin("box", "call-1")).toBe(undefined);
      const done = await whole(again);
      expect([done.stdout.length, done.exit]).toStrictEqual([900_000, { kind: "code", code: 9 }]);
      expect(done.stderr.toString()).toBe(Array.from({ length: 30 }, (_, i) => `${i}\n`).join(""));
      await expect.poll(() => shelf.list("command/"), { timeout: 5000 }).toStrictEqual([]);
      rmSync(folder, { recursive: true, force: true });
    }, 30_000);

    test("commands that nobody takes up are ended after a while, without a word from anybody", async () => {
      const rig = open();
      const kept = { shelf: memoryShelf(), folder: join(tmpdir(), "beige-none-such") };
      const first = gateway(rig, { epoch: 1, kept });
      await first.exec("box", { command: ["sleep", `${nap}`], cwd: "/", timeoutMs: 60_000, key: "a" });
      await first.exec("box", { command: ["sleep", `${nap}`], cwd: "/", timeoutMs: 60_000 });
      first.close();
      const next = gateway(rig, { epoch: 2, kept, rejoinMs: 400 });
      const count = async (): Promise<string> => (await whole(await sh(next, `pgrep -fc '^sleep ${nap}' || true`))).stdout.toString();
      expect(await count()).toBe("2\n");
      await expect.poll(count, { timeout: 5000 }).toBe("0\n");
      expect(kept.shelf.list("command/")).toStrictEqual([]);
      expect(await next.rejoin("box", "a")).toBe(undefined);
    });

    test("a sandbox that was started anew makes its commands lost", async () => {
      const rig = open();
      let current = rig;
      const on = gateway(rig, { connect: () => current.connect(), fate: () => Promise.resolve({ state: "running", reason: "" }) });
      const waiting = whole(await sh(on, "sleep 30"));
      current = open();
      await rig.end();
      rig.cut();
      expect((await waiting).exit).toMatchObject({ kind: "lost", reason: "the sandbox was started anew" });
      expect((await whole(await sh(on, "echo again"))).stdout.toString()).toBe("again\n");
    });
  });
}
