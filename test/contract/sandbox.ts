// What every Sandbox promises, whatever isolates: one suite, run against the real engine and against the fake.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BeigeError } from "../../src/core/errors.ts";
import { LABEL, type ExecHandle, type ExecRequest, type Sandbox, type SandboxHint, type SandboxSpec } from "../../src/core/sandbox.ts";

export interface SandboxUnderTest {
  readonly sandbox: Sandbox;
  /** Value of the store label, nobody else's. */
  readonly store: string;
  /** A spec that can be created: names and labels are its own at each call. */
  readonly spec: (change?: Partial<SandboxSpec>) => SandboxSpec;
  /** Whether commands are really run by a shell. */
  readonly shell: boolean;
  /** Removes everything that the suite made. */
  readonly cleanup: () => Promise<void>;
}

export interface Ended {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly exit: Awaited<ExecHandle["exit"]>;
}

/** Reads a command to its end. */
export async function finish(handle: ExecHandle, input?: Uint8Array): Promise<Ended> {
  const sent = (async () => {
    if (input !== undefined) await handle.write(input);
    await handle.end();
  })().catch(() => undefined);
  const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  for await (const { stream, data } of handle.output) parts[stream].push(data);
  await sent;
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), exit: await handle.exit };
}

/** The code of what a promise rejects with. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "no error";
  } catch (error) {
    return error instanceof BeigeError ? error.code : `not a BeigeError: ${String(error)}`;
  }
}

const sh = (script: string, more: Partial<ExecRequest> = {}): ExecRequest => ({
  command: ["sh", "-c", script],
  timeoutMs: 20_000,
  ...more,
});

export function sandboxContract(name: string, make: () => Promise<SandboxUnderTest>): void {
  describe(`sandbox contract: ${name}`, () => {
    let it: SandboxUnderTest;
    beforeAll(async () => {
      it = await make();
    });
    afterAll(() => it?.cleanup());
    const started = async (change?: Partial<SandboxSpec>): Promise<string> => {
      const id = await it.sandbox.create(it.spec(change));
      await it.sandbox.start(id);
      return id;
    };
    lifeTests(() => it, started);
    lookTests(() => it, started);
    commandTests(() => it, started);
  });
}

type Start = (change?: Partial<SandboxSpec>) => Promise<string>;

function lifeTests(get: () => SandboxUnderTest, started: Start): void {
  test("a container goes from created to running to exited to gone", async () => {
    const { sandbox, spec } = get();
    const id = await sandbox.create(spec());
    expect((await sandbox.inspect(id))?.state).toBe("created");
    expect((await sandbox.inspect(id))?.startedAt).toBeUndefined();
    await sandbox.start(id);
    const running = await sandbox.inspect(id);
    expect(running?.state).toBe("running");
    expect(Date.parse(running?.startedAt ?? "")).toBeGreaterThan(0);
    await sandbox.stop(id, 5000);
    expect(await sandbox.inspect(id)).toMatchObject({ state: "exited", exitCode: 0 });
    await sandbox.remove(id);
    expect(await sandbox.inspect(id)).toBeUndefined();
  });

  test("starting what runs and stopping what is stopped or gone is a success", async () => {
    const { sandbox } = get();
    const id = await started();
    await sandbox.start(id);
    await sandbox.stop(id, 5000);
    await sandbox.stop(id, 5000);
    await sandbox.remove(id);
    await sandbox.remove(id);
    await sandbox.stop(id, 5000);
    expect(await codeOf(sandbox.start(id))).toBe("not_found");
    expect(await codeOf(sandbox.rename(id, "nobody"))).toBe("not_found");
    expect(await codeOf(sandbox.unpause(id))).toBe("not_found");
    expect(await codeOf(sandbox.exec(id, sh("true")))).toBe("not_found");
  });

  test("a stopped container starts again under the same id", async () => {
    const { sandbox } = get();
    const id = await started();
    await sandbox.stop(id, 5000);
    await sandbox.start(id);
    expect(await sandbox.inspect(id)).toMatchObject({ id, state: "running" });
    await sandbox.remove(id);
  });

  test("a taken name is a conflict, and a name is free as soon as its container is removed", async () => {
    const { sandbox, spec } = get();
    const wanted = spec();
    const first = await sandbox.create(wanted);
    expect(await codeOf(sandbox.create(wanted))).toBe("conflict");
    for (let round = 0, id = first; round < 4; round++) {
      await sandbox.start(id);
      await sandbox.remove(id);
      id = await sandbox.create(wanted);
      if (round === 3) await sandbox.remove(id);
    }
  });

  test("an absent image is undefined, and creating from it is not_found with a command as hint", async () => {
    const { sandbox, spec } = get();
    expect(await sandbox.image("beige-absent:7")).toBeUndefined();
    const refused = await sandbox.create(spec({ image: "beige-absent:7" })).catch((error: unknown) => error as BeigeError);
    expect(refused).toMatchObject({ code: "not_found", hint: expect.stringMatching(/./) as string });
    expect(await sandbox.image(spec().image)).toMatch(/./);
  });

  test("an aborted signal refuses before anything is done", async () => {
    const { sandbox, spec } = get();
    const wanted = spec();
    await expect(sandbox.create(wanted, AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
    const listed = await sandbox.list(get().store);
    expect(listed.some(({ name }) => name === wanted.name)).toBe(false);
  });
}

function lookTests(get: () => SandboxUnderTest, started: Start): void {
  test("inspection of a fresh container is exactly the spec that it was made from, before and after its start", async () => {
    const { sandbox, spec } = get();
    const wanted = spec({ env: { PATH: "/tools/bin:/usr/bin:/bin", EMPTY: "", EQUALS: "a=b=c", UMLAUT: "ü😀" }, cpus: 0.5, pids: 77 });
    const id = await sandbox.create(wanted);
    expect((await sandbox.inspect(id))?.spec).toStrictEqual(wanted);
    await sandbox.start(id);
    expect((await sandbox.inspect(id))?.spec).toStrictEqual(wanted);
    expect((await sandbox.inspect(id))?.imageId).toBe(await sandbox.image(wanted.image));
    await sandbox.remove(id);
  });

  test("new limits and a new name are seen, and nothing else changes", async () => {
    const { sandbox, spec } = get();
    const wanted = spec();
    const id = await sandbox.create(wanted);
    await sandbox.start(id);
    const limits = { memoryBytes: wanted.memoryBytes * 2, cpus: 1.5, pids: wanted.pids + 11 };
    await sandbox.update(id, limits);
    await sandbox.rename(id, `${wanted.name}-renamed`);
    expect((await sandbox.inspect(id))?.spec).toStrictEqual({ ...wanted, ...limits, name: `${wanted.name}-renamed` });
    await sandbox.update(id, wanted);
    expect((await sandbox.inspect(id))?.spec.memoryBytes).toBe(wanted.memoryBytes);
    await sandbox.remove(id);
  });

  test("the list holds exactly the containers of one store, running or not", async () => {
    const { sandbox, store, spec } = get();
    const near = { ...spec().labels, [LABEL.store]: `${store}2` };
    const mine = await sandbox.create(spec());
    const other = await sandbox.create(spec({ labels: near }));
    try {
      const ids = (await sandbox.list(store)).map(({ id }) => id);
      expect(ids).toContain(mine);
      expect(ids).not.toContain(other);
      expect((await sandbox.list(`${store}2`)).map(({ id }) => id)).toStrictEqual([other]);
      expect((await sandbox.list(store.slice(0, -1))).map(({ id }) => id)).toStrictEqual([]);
      const [one] = (await sandbox.list(store)).filter(({ id }) => id === mine);
      expect(one).toMatchObject({ state: "created", labels: { [LABEL.store]: store } });
    } finally {
      await sandbox.remove(mine);
      await sandbox.remove(other);
    }
  });

  test("a watcher is told to list anew when it connects, and hears of a start with the container's labels", async () => {
    const { sandbox, store, spec } = get();
    const stop = new AbortController();
    const hints: SandboxHint[] = [];
    const listed = Promise.withResolvers<void>();
    const watching = sandbox.watch({ hint: (hint) => hints.push(hint), relist: listed.resolve, down: listed.reject }, stop.signal);
    await listed.promise;
    const id = await sandbox.create(spec());
    await sandbox.start(id);
    await expect.poll(() => hints.some((hint) => hint.id === id && hint.labels[LABEL.store] === store), { timeout: 5000 }).toBe(true);
    await sandbox.remove(id);
    stop.abort();
    await watching;
  });

  test("what the engine knows of a container's end can be read", async () => {
    const { sandbox } = get();
    const id = await started();
    await sandbox.stop(id, 5000);
    expect(typeof (await sandbox.logs(id, 10))).toBe("string");
    await sandbox.remove(id);
    expect(await codeOf(sandbox.logs(id, 10))).toBe("not_found");
  });
}

function commandTests(get: () => SandboxUnderTest, started: Start): void {
  test("a command in a stopped container is unavailable, with the command that mends it", async () => {
    const { sandbox } = get();
    const id = await started();
    await sandbox.stop(id, 5000);
    const refused = await sandbox.exec(id, sh("true")).catch((error: unknown) => error as BeigeError);
    expect(refused).toMatchObject({ code: "unavailable", hint: expect.stringContaining("start") as string });
    await sandbox.remove(id);
  });

  test("output, exit code, folder, environment and input of a command arrive", async () => {
    const { sandbox, shell } = get();
    if (!shell) return;
    const id = await started();
    const script = "cat; pwd; echo $WORD >&2; exit 3";
    const end = await finish(await sandbox.exec(id, sh(script, { cwd: "/tmp", env: { WORD: "ü b" } })), Buffer.from("in\n"));
    expect(end).toStrictEqual({ stdout: Buffer.from("in\n/tmp\n"), stderr: Buffer.from("ü b\n"), exit: { kind: "code", code: 3 } });
    await sandbox.remove(id);
  });

  test("a killed command is cancelled, killing it again does nothing, and its input is refused", async () => {
    const { sandbox, shell } = get();
    if (!shell) return;
    const id = await started();
    const handle = await sandbox.exec(id, sh("sleep 97"));
    handle.kill();
    handle.kill();
    expect(await handle.exit).toStrictEqual({ kind: "cancelled" });
    expect(await codeOf(handle.write(Buffer.from("x")))).toBe("unavailable");
    await sandbox.remove(id);
  });
}
