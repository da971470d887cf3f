// A folder that becomes a link after it was checked: before the container is made, before it is started, and while it waits.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeGateway, pause, until, type Gateway } from "../../gateway.ts";
import { agent, BASE, sandbox } from "./ground.ts";

const ENGINE = "/var/run/docker.sock";

/** The engine behind a socket of our own; `before` sees the beginning of every request before the engine does. */
function proxy(path: string, before: (head: string) => void): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (from) => {
    const to = connect({ path: ENGINE, allowHalfOpen: true });
    from.on("data", (chunk: Buffer) => {
      before(chunk.subarray(0, 300).toString("latin1"));
      to.write(chunk);
    });
    to.pipe(from);
    from.on("end", () => to.end());
    for (const socket of [from, to]) socket.on("error", () => socket.destroy()).on("close", () => (from.destroy(), to.destroy()));
  });
  return new Promise((done) => server.listen(path, () => done(server)));
}

const box = sandbox("beige-tiny:1", "64Mi");
const TARGET = "victim/diary";

interface Moment {
  readonly name: string;
  /** The first request of the engine that fits; absent: as soon as the gateway has made the folder. */
  readonly at?: RegExp;
}
const MOMENTS: readonly Moment[] = [
  { name: "once it was made" },
  { name: "at the create", at: /^POST \/(v[\d.]+\/)?containers\/create/ },
  { name: "at the start", at: /^POST \/(v[\d.]+\/)?containers\/[0-9a-f]+\/start/ },
];

interface Place {
  readonly gateway: Gateway;
  readonly host: string;
}

/** The first folder is real when it is checked; then it is the victim's. */
async function swapOne({ gateway, host }: Place, moment: Moment, arm: (swap: () => void) => void): Promise<void> {
  const name = moment.name.replaceAll(" ", "-");
  // Not made before: the gateway makes it and gives it to the agent.
  const folder = join(host, name);
  arm(() => {
    renameSync(folder, `${folder}.old`);
    symlinkSync(join(host, "victim"), folder);
  });
  const text = agent(name, `${box}\n  workspace: {path: "${folder}"}`);
  const body = {
    files: [{ name: "x.yaml", folder: host, text, vars: {}, files: {} }],
    set: name,
    dryRun: false,
    forceConflicts: false,
    prune: false,
    wait: true,
    timeoutMs: 8_000,
  };
  const over = new AbortController();
  const applying = gateway.stream("/api/apply", body).finally(() => over.abort());
  // As long as it is made, and for a while after: whatever serves must not be in the victim's folder.
  const looks = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const { body: answer } = await gateway.request("POST", `/api/agents/${name}/exec`, { command: "cat diary; ls -a" });
      assert.ok(!JSON.stringify(answer).includes("diary-of-the-victim"), `swap ${moment.name}: the agent reads the victim's folder`);
      await pause(50);
    }
  };
  await Promise.all([applying, looks()]);
  // The end of the apply may fall into a pass: what counts is where it comes to rest.
  let seen: unknown;
  const refused = async (): Promise<boolean> => {
    const { body: answer } = await gateway.request("GET", `/api/agents/${name}`);
    seen = answer;
    assert.notEqual(answer.ready, "True", `swap ${moment.name}: ${JSON.stringify(answer)}`);
    return answer.ready === "False" && String(answer.reason).endsWith("Refused");
  };
  await until(refused, 20_000, `swap ${moment.name}: refused`).catch((error: Error) =>
    assert.fail(`${error.message}: ${JSON.stringify(seen)}`),
  );
  await until(() => containersOf(gateway, name).length === 0, 20_000, `swap ${moment.name}: no container of it is left`);
  await gateway.beige("delete", "agent", name, "-y");
}

const containersOf = (gateway: Gateway, name: string): readonly string[] => {
  const listed = spawnSync(
    "docker",
    ["ps", "-aq", "--filter", `label=beige.dev/name=${name}`, ...gateway.containers().flatMap((id) => ["--filter", `id=${id}`])],
    { encoding: "utf8" },
  );
  return gateway.containers().length === 0 ? [] : listed.stdout.split("\n").filter(Boolean);
};

/** Swaps at the moment, once. */
function armed(): {
  readonly before: (head: string) => void;
  readonly done: () => boolean;
  readonly arm: (moment: Moment, folder: string) => (swap: () => void) => void;
} {
  let waiting: { readonly at: RegExp | undefined; readonly swap: () => void } | undefined;
  const fire = (): void => {
    const swap = waiting?.swap;
    waiting = undefined;
    swap?.();
  };
  return {
    before: (head) => void (waiting?.at?.test(head) === true && fire()),
    done: () => waiting === undefined,
    arm:
      ({ at }, folder) =>
      (swap) => {
        waiting = { at, swap };
        if (at !== undefined) return;
        const watching = setInterval(() => {
          if (!existsSync(folder)) return;
          clearInterval(watching);
          fire();
        }, 0);
      },
  };
}

export async function swaps(): Promise<string> {
  const host = mkdtempSync(join(tmpdir(), "beige-swap-"));
  const { before, arm, done } = armed();
  const server = await proxy(join(host, "docker.sock"), before);
  const gateway = makeGateway({ env: { DOCKER_HOST: `unix://${join(host, "docker.sock")}` } });
  try {
    writeFileSync(join(gateway.home, "host.yaml"), "paths: {workspaces: [/], mounts: [/]}\n", { mode: 0o600 });
    mkdirSync(join(host, "victim"));
    writeFileSync(join(host, TARGET), "diary-of-the-victim\n");
    await gateway.start();
    await gateway.apply(BASE);
    for (const one of MOMENTS) {
      await swapOne({ gateway, host }, one, arm(one, join(host, one.name.replaceAll(" ", "-"))));
      assert.ok(done(), `the swap ${one.name} took place`);
    }
    return `a folder that became a link ${MOMENTS.map((one) => one.name).join(", ")} never served`;
  } finally {
    await gateway.clean();
    server.close();
    rmSync(host, { recursive: true, force: true });
  }
}
