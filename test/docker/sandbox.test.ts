// The Sandbox port on the real engine: the contract, and what only a real one can show.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LABEL } from "../../src/core/sandbox.ts";
import { codeOf, finish, sandboxContract } from "../contract/sandbox.ts";
import { openDocker, openGround, type Ground } from "./ground.ts";

sandboxContract("docker", () => Promise.resolve(openGround()));

const docker = (...args: string[]): string => execFileSync("docker", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const elapsed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now();
  await work();
  return performance.now() - began;
};

describe("commands in a container", () => {
  let ground: Ground;
  let id: string;
  beforeAll(async () => {
    ground = openGround();
    id = await ground.up();
  });
  afterAll(() => ground.cleanup());

  test("both outputs arrive byte for byte and apart, every byte value included", async () => {
    const script = `i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i+1)); done; printf 'e\\0\\1\\2e' >&2`;
    const end = await ground.run(id, script);
    expect(end.stdout).toStrictEqual(Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
    expect(end.stderr).toStrictEqual(Buffer.from([0x65, 0, 1, 2, 0x65]));
  });

  test("20 MB in and out come through unchanged, also when the reader is slow", async () => {
    const input = Buffer.alloc(20_000_000, "0123456789abcdef\n");
    for (let i = 0; i < input.length; i += 4096) input[i] = i >> 12;
    const handle = await ground.sandbox.exec(id, { command: ["cat"], timeoutMs: 60_000 });
    const sent = handle.write(input).then(() => handle.end());
    const hash = createHash("sha256");
    let pieces = 0;
    for await (const { data } of handle.output) {
      hash.update(data);
      if (++pieces % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await sent;
    expect(await handle.exit).toStrictEqual({ kind: "code", code: 0 });
    expect(hash.digest("hex")).toBe(createHash("sha256").update(input).digest("hex"));
  });

  test("a reader that stops reading holds the command back instead of filling memory", async () => {
    const handle = await ground.sandbox.exec(id, { command: ["yes"], timeoutMs: 60_000 });
    const reader = handle.output[Symbol.asyncIterator]();
    await reader.next();
    await new Promise((resolve) => setTimeout(resolve, 600));
    const before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed;
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed - before).toBeLessThan(8 << 20);
    expect(await elapsed(async () => (handle.kill(), handle.exit))).toBeLessThan(1000);
    await expect.poll(() => ground.processes(id)).toStrictEqual([]);
  });

  test("a command over its limit ends with its whole tree, detached grandchildren included", async () => {
    const script =
      "setsid sleep 301 & (setsid sh -c 'trap \"\" TERM HUP; sleep 302; sleep 303' &) ; nohup sleep 304 >/dev/null 2>&1 & sleep 305";
    const took = await elapsed(async () => {
      const end = await ground.run(id, script, { timeoutMs: 400 });
      expect(end.exit).toStrictEqual({ kind: "timeout" });
    });
    expect(took).toBeLessThan(400 + 1000);
    expect(await ground.processes(id)).toStrictEqual([]);
  });

  test("an aborted command and one whose reader leaves end with their trees within a second", async () => {
    const abort = new AbortController();
    const script = "trap '' TERM; setsid sleep 311 & while :; do echo x; sleep 0.01; done";
    const one = await ground.sandbox.exec(id, { command: ["sh", "-c", script], timeoutMs: 60_000 }, abort.signal);
    const two = await ground.sandbox.exec(id, { command: ["sh", "-c", script], timeoutMs: 60_000 });
    abort.abort();
    for await (const piece of two.output) if (piece.data.length > 0) break;
    expect(await Promise.all([one.exit, two.exit])).toStrictEqual([{ kind: "cancelled" }, { kind: "cancelled" }]);
    expect(await elapsed(() => expect.poll(() => ground.processes(id), { timeout: 1000 }).toStrictEqual([]))).toBeLessThan(1000);
  });

  test("a command outlives the client that dies without a word, and the next one that does not know it ends it", async () => {
    const own = await ground.up();
    const script = `
      import { openDocker } from ${JSON.stringify(new URL("ground.ts", import.meta.url).pathname)};
      const command = ["sh", "-c", "setsid sleep 321 & trap '' TERM; yes"];
      const { output } = await openDocker().exec(${JSON.stringify(own)}, { command, timeoutMs: 60000 });
      for await (const { stream } of output) {
        console.log(stream);
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }`;
    const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    expect((await ground.processes(own)).some((line) => line.includes("yes"))).toBe(true);
    const next = await openDocker().exec(own, { command: ["true"], timeoutMs: 5000 });
    expect(await next.exit).toStrictEqual({ kind: "code", code: 0 });
    expect(await elapsed(() => expect.poll(() => ground.processes(own), { timeout: 3000, interval: 20 }).toStrictEqual([]))).toBeLessThan(
      1500,
    );
  });

  test("a fork bomb ends within a second of its limit and the container goes on", async () => {
    const bomb = "bomb() { bomb | bomb & }; bomb; sleep 331";
    const took = await elapsed(async () => {
      const end = await ground.run(id, bomb, { timeoutMs: 500 });
      expect(end.exit).toStrictEqual({ kind: "timeout" });
    });
    expect(took).toBeLessThan(500 + 1500);
    expect(await ground.processes(id)).toStrictEqual([]);
    expect((await ground.run(id, "echo alive")).stdout.toString()).toBe("alive\n");
  });

  test("a background child that holds the output does not hold the call, and what was written before arrives", async () => {
    const took = await elapsed(async () => {
      const end = await ground.run(id, "sleep 341 & head -c 300000 /dev/zero; echo end");
      expect(end.stdout.length).toBe(300_004);
      expect(end.exit).toStrictEqual({ kind: "code", code: 0 });
    });
    expect(took).toBeLessThan(1000);
    const noisy = await ground.run(id, "yes noise & sleep 0.1; echo said >&2");
    expect(noisy.stderr.toString()).toBe("said\n");
    expect(await ground.processes(id)).toStrictEqual([]);
  });

  test("ten thousand quick commands each answer with their output (P65)", async () => {
    let left = 10_000;
    const wrong: unknown[] = [];
    const some = async (): Promise<void> => {
      while (left-- > 0) {
        const done = await finish(await ground.sandbox.exec(id, { command: ["echo", "running"], timeoutMs: 20_000 }));
        if (done.stdout.toString() !== "running\n" || done.stderr.length > 0) wrong.push(done);
      }
    };
    await Promise.all(Array.from({ length: 16 }, some));
    expect(wrong).toStrictEqual([]);
  }, 180_000);

  test("a command that runs out of memory says so, by signal, through a shell and inside a pipeline that exits 0", async () => {
    const small = await ground.up({ memoryBytes: 16 << 20 });
    const eat = "tail -c 100000000 /dev/zero";
    expect(
      (await finish(await ground.sandbox.exec(small, { command: ["tail", "-c", "100000000", "/dev/zero"], timeoutMs: 20_000 }))).exit,
    ).toStrictEqual({ kind: "oom" });
    expect((await ground.run(small, `${eat} >/dev/null`)).exit).toStrictEqual({ kind: "oom" });
    expect((await ground.run(small, `${eat} | wc -c`)).exit).toStrictEqual({ kind: "oom" });
    expect((await ground.run(small, "kill -9 $$")).exit).toStrictEqual({ kind: "signal", signal: 9 });
    expect((await ground.sandbox.inspect(small))?.state).toBe("running");
  });

  test("a program that is not there, is no program, or a folder that is not there is said plainly", async () => {
    const run = async (command: string[], cwd?: string) =>
      finish(await ground.sandbox.exec(id, { command, timeoutMs: 5000, ...(cwd === undefined ? {} : { cwd }) }));
    expect(await run(["nosuch"])).toMatchObject({
      exit: { kind: "code", code: 127 },
      stderr: Buffer.from("beige: nosuch: command not found\n"),
    });
    expect((await run(["/etc/passwd"])).exit).toStrictEqual({ kind: "code", code: 126 });
    expect(await codeOf(run(["echo", "x".repeat(140_000)]))).toBe("invalid");
    const nowhere = await run(["true"], "/no/where");
    expect(nowhere.exit).toStrictEqual({ kind: "code", code: 126 });
    expect(nowhere.stderr.toString()).toContain("/no/where");
  });

  test("a command in a paused container is unavailable and says how to mend it; unpausing twice is a success", async () => {
    const paused = await ground.up();
    docker("pause", paused);
    const refused = await ground.sandbox.exec(paused, { command: ["true"], timeoutMs: 1000 }).catch((error: unknown) => error as Error);
    expect(refused).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("paused") as string,
      hint: expect.stringContaining("unpause") as string,
    });
    await ground.sandbox.unpause(paused);
    await ground.sandbox.unpause(paused);
    expect((await ground.run(paused, "echo on")).stdout.toString()).toBe("on\n");
  });

  test("a container that ends under a command makes it lost, never a success", async () => {
    const dying = await ground.up();
    const handle = await ground.sandbox.exec(dying, { command: ["sleep", "351"], timeoutMs: 60_000 });
    docker("kill", dying);
    expect((await finish(handle)).exit).toMatchObject({ kind: "lost" });
  });

  test("a container that was made without our PID 1 or its input gets its commands through the engine", async () => {
    const made = docker(
      "run",
      "-d",
      "--entrypoint",
      "/beige/tool-client",
      "-v",
      `${ground.folder}/beige:/beige:ro`,
      "-v",
      `${ground.folder}/work:/workspace`,
      "--label",
      `${LABEL.store}=${ground.store}`,
      "beige-tiny:1",
      "init",
    ).trim();
    expect((await ground.run(made, "echo $0; exit 3")).exit).toStrictEqual({ kind: "code", code: 3 });
    // P65 by this road: an engine's exec that says 0 without its output.
    for (let round = 0; round < 10; round++) {
      const done = await Promise.all(Array.from({ length: 4 }, () => ground.run(made, "echo running; echo told >&2")));
      expect(done.map(({ stdout, stderr }) => `${stdout.toString()}${stderr.toString()}`)).toStrictEqual(done.map(() => "running\ntold\n"));
    }
    execFileSync("mv", [`${ground.folder}/beige/tool-client`, `${ground.folder}/beige/away`]);
    try {
      expect(await codeOf(ground.sandbox.exec(made, { command: ["true"], timeoutMs: 1000 }))).toBe("unavailable");
    } finally {
      execFileSync("mv", [`${ground.folder}/beige/away`, `${ground.folder}/beige/tool-client`]);
    }
  });
});

describe("life of containers", () => {
  let ground: Ground;
  beforeAll(() => {
    ground = openGround();
  });
  afterAll(() => ground.cleanup());

  test("ten containers stop together in far less than their grace", async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, () => ground.up()));
    expect(await elapsed(() => Promise.all(ids.map((one) => ground.sandbox.stop(one, 10_000))))).toBeLessThan(5000);
    expect((await Promise.all(ids.map((one) => ground.sandbox.inspect(one)))).map((seen) => seen?.exitCode)).toStrictEqual(
      ids.map(() => 0),
    );
    await Promise.all(ids.map((one) => ground.sandbox.remove(one)));
  });

  test("a create during somebody else's removal waits for the name", async () => {
    const spec = ground.spec();
    for (let round = 0; round < 3; round++) {
      const old = await ground.sandbox.create(spec);
      await ground.sandbox.start(old);
      const [, , fresh] = await Promise.all([ground.sandbox.remove(old), ground.sandbox.remove(old), ground.sandbox.create(spec)]);
      expect((await ground.sandbox.inspect(fresh))?.spec.name).toBe(spec.name);
      await ground.sandbox.remove(fresh);
    }
  });

  test("limits that were changed by hand show as exactly those fields", async () => {
    const spec = ground.spec();
    const one = await ground.sandbox.create(spec);
    await ground.sandbox.start(one);
    docker("update", "--memory", "64m", "--memory-swap", "64m", "--cpus", "0.25", "--pids-limit", "99", one);
    expect((await ground.sandbox.inspect(one))?.spec).toStrictEqual({ ...spec, memoryBytes: 64 << 20, cpus: 0.25, pids: 99 });
    docker("update", "--memory-swap", "128m", "--restart", "always", one);
    expect((await ground.sandbox.inspect(one))?.spec.hardening).toStrictEqual(["MemorySwap=134217728", "RestartPolicy=Name=always"]);
  });

  test("a network that was connected by hand shows, and one that was cut off too", async () => {
    const none = await ground.up();
    docker("network", "disconnect", "none", none);
    expect((await ground.sandbox.inspect(none))?.spec.network).toBe("none");
    docker("network", "connect", "bridge", none);
    expect((await ground.sandbox.inspect(none))?.spec.network).toBe("open");
    const spec = ground.spec({ network: "open" });
    const open = await ground.sandbox.create(spec);
    await ground.sandbox.start(open);
    expect((await ground.sandbox.inspect(open))?.spec).toStrictEqual(spec);
    docker("network", "disconnect", "bridge", open);
    expect((await ground.sandbox.inspect(open))?.spec).toStrictEqual({ ...spec, network: "none" });
  });

  test("a container that somebody made by hand under our labels shows each protection that it lacks", async () => {
    const made = docker(
      "create",
      "--privileged",
      "--pid",
      "host",
      "-v",
      "/etc:/x",
      "--label",
      `${LABEL.store}=${ground.store}`,
      "beige-tiny:1",
      "sh",
    ).trim();
    const seen = await ground.sandbox.inspect(made);
    expect(seen?.spec.profile).toBe("packages");
    expect(seen?.spec.mounts).toContainEqual({ source: "/etc", target: "/x", readOnly: false });
    expect(seen?.spec.hardening).toEqual(
      expect.arrayContaining(["Privileged=true", "PidMode=host", "CapDrop=", "MaskedPaths=", "Entrypoint=sh"]),
    );
  });

  test("an image's own variables, labels and health check do not reach the container", async () => {
    const build = [
      "import",
      "--change",
      "ENV LEAK=1 PATH=/image",
      "--change",
      "LABEL image=label",
      "--change",
      "HEALTHCHECK CMD true",
      "-",
      "beige-test-leaky:1",
    ];
    execFileSync("docker", build, { input: execFileSync("tar", ["-cf", "-", "--files-from", "/dev/null"]) });
    try {
      const spec = ground.spec({ image: "beige-test-leaky:1", env: { ONLY: "this" } });
      const one = await ground.sandbox.create(spec);
      expect((await ground.sandbox.inspect(one))?.spec).toStrictEqual(spec);
      expect(docker("inspect", "-f", "{{json .Config.Env}} {{json .Config.Healthcheck.Test}}", one)).not.toMatch(/LEAK=|image|CMD/);
      await ground.sandbox.remove(one);
    } finally {
      docker("rmi", "-f", "beige-test-leaky:1");
    }
  });

  test("the packages profile is root inside with a writable system, and is seen as the spec that it was made from", async () => {
    const spec = ground.spec({ profile: "packages" });
    const one = await ground.sandbox.create(spec);
    await ground.sandbox.start(one);
    expect((await ground.sandbox.inspect(one))?.spec).toStrictEqual(spec);
    const end = await ground.run(one, "id -u; echo x >/bin/new && cat /bin/new; grep CapEff /proc/self/status");
    expect(end.stdout.toString()).toBe("0\nx\nCapEff:\t00000000000000cb\n");
  });
});
