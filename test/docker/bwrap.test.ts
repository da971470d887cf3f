// The Sandbox port on bubblewrap: the contract, and what its wall holds.
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { finish, sandboxContract } from "../contract/sandbox.ts";
import { makeGateway } from "../gateway.ts";
import { groupsOf, noGroups, openBwrapGround, unpackImage, type BwrapGround } from "./bwrapground.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: worker}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {backend: bwrap, image: host, resources: {memory: 256Mi, pids: 64}}
`;
sandboxContract("bwrap", () => Promise.resolve(openBwrapGround()));
sandboxContract("bwrap without control groups", () => Promise.resolve(openBwrapGround({ groups: noGroups })));

let ground: BwrapGround;
let id: string;
beforeAll(async () => {
  ground = openBwrapGround();
  id = await ground.up();
});
afterAll(() => ground.cleanup());
const said = async (script: string): Promise<string> => (await ground.run(id, script)).stdout.toString().trim();

test("20 MB go through it and come back unchanged", async () => {
  const input = randomBytes(20_000_000);
  const handle = await ground.sandbox.exec(id, { command: ["cat"], timeoutMs: 60_000 });
  const end = await finish(handle, input);
  expect([end.exit, end.stdout.equals(input)]).toStrictEqual([{ kind: "code", code: 0 }, true]);
});

test("it runs as the workspace's owner, sees nothing of the host but its programs, and can gain nothing", async () => {
  expect(await said("id -u; echo x >own; stat -c %u own")).toBe(`${ground.spec().user.uid}\n${ground.spec().user.uid}`);
  expect(await said("ls /root /home /var /run /etc/shadow 2>/dev/null; ls /")).toMatch(
    /^beige\nbin\ndev\netc\n(lib\S*\n)+proc\nsbin\n(sys\n)?tmp\ntools\nusr\nworkspace$/,
  );
  const tries = [
    "touch /x",
    "touch /usr/x",
    "touch /beige/x",
    "touch /tools/bin/x",
    "touch /dev/x",
    "unshare -U true",
    "mount -t tmpfs x /tmp",
    "chroot / true",
    "kill -9 1; kill -0 1 && false",
  ];
  for (const script of tries) expect([script, (await ground.run(id, script)).exit]).not.toStrictEqual([script, { kind: "code", code: 0 }]);
  expect(await said("cat /sys/class/net/lo/operstate 2>/dev/null; cat /proc/net/dev | grep -c :")).toBe("1");
  expect(await said("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")).toMatch(/CapEff:\s+0+\nCapBnd:\s+0+\nNoNewPrivs:\s+1/);
  expect(await said("ls /proc | grep -c '^[0-9]'")).toMatch(/^[1-9]$/);
});

test("without control groups each process has limits, and a timeout ends the whole tree", async () => {
  const plain = openBwrapGround({ groups: noGroups });
  const id = await plain.up();
  const said = async (script: string): Promise<string> => (await plain.run(id, script)).stdout.toString().trim();
  const bomb = await plain.run(id, "i=0; while [ $i -lt 300 ]; do sleep 5 & i=$((i+1)); done; wait", { timeoutMs: 8000 });
  expect(bomb.stderr.toString()).toMatch(/fork/i);
  expect((await plain.run(id, "dd if=/dev/zero of=/dev/null bs=300M count=1")).exit).not.toStrictEqual({ kind: "code", code: 0 });
  expect((await plain.run(id, "setsid sleep 333 & sleep 333", { timeoutMs: 500 })).exit).toStrictEqual({ kind: "timeout" });
  await expect.poll(() => said("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 33[3]'")).toBe("0");
  expect((await plain.sandbox.checks?.(id))?.filter(({ state }) => state !== "ok").map(({ rule }) => rule)).toStrictEqual(["5.10", "5.11"]);
  await plain.cleanup();
});

test("without root it has a process limit of its own too, which no process of the host counts against", () => {
  // As somebody else who is nobody here; two other processes of that user run outside.
  const program = `
    import { openBwrapGround } from ${JSON.stringify(new URL("bwrapground.ts", import.meta.url).href)};
    import { spawn } from "node:child_process";
    const outside = [1, 2].map(() => spawn("sleep", ["20"]));
    const ground = openBwrapGround();
    const id = await ground.up({ pids: 20 });
    const said = async (script) => (await ground.run(id, script)).stdout.toString().trim();
    const many = await said("(i=0; while [ $i -lt 60 ]; do sleep 9 & i=$((i+1)); done) 2>/dev/null; set -- /proc/[0-9]*; echo $#");
    console.log(JSON.stringify({ many: Number(many), status: await said("grep -E 'Seccomp:|NoNewPrivs' /proc/self/status | tr -d '\\t'"), id: await said("id -u") }));
    console.log(JSON.stringify((await ground.sandbox.checks(id)).filter(({ state }) => state !== "ok").map(({ rule }) => rule)));
    await ground.cleanup();
    for (const one of outside) one.kill();
    process.exit(0);
  `;
  const words = process.getuid?.() === 0 ? ["--reuid=20779", "--regid=20779", "--clear-groups"] : [];
  const ran = spawnSync("setpriv", [...words, process.execPath, "--input-type=module", "-e", program], { encoding: "utf8", cwd: "/" });
  const [told = "", lacks = ""] = ran.stdout.split("\n");
  const { many, ...rest } = JSON.parse(told || JSON.stringify(ran.stderr)) as { many: number };
  expect([many > 10, many <= 21]).toStrictEqual([true, true]);
  expect(rest).toMatchObject({ status: "NoNewPrivs:1\nSeccomp:2", ...(words.length > 0 ? { id: "20779" } : {}) });
  expect(JSON.parse(lacks)).toStrictEqual(["5.10", "5.11"]);
});

test("it outlives the gateway: the next one finds it running and its commands work there", async () => {
  const own = await ground.up();
  await finish(await ground.sandbox.exec(own, { command: ["sh", "-c", "echo 1 >/tmp/mark"], timeoutMs: 5000 }));
  const next = ground.open();
  expect((await next.inspect(own))?.state).toBe("running");
  const end = await finish(await next.exec(own, { command: ["cat", "/tmp/mark"], timeoutMs: 5000 }));
  expect(end.stdout.toString()).toBe("1\n");
  await next.remove(own);
  expect(existsSync(join(ground.folder, "bwrap", own))).toBe(false);
});

test("the end of its PID 1 is seen, and a command in it is lost or refused, never done", async () => {
  const own = await ground.up();
  const handle = await ground.sandbox.exec(own, { command: ["sleep", "60"], timeoutMs: 60_000 });
  const record = JSON.parse(execFileSync("cat", [join(ground.folder, "bwrap", own, "record.json")], { encoding: "utf8" })) as {
    run: { pid: number };
  };
  process.kill(record.run.pid, "SIGKILL");
  expect((await handle.exit).kind).toBe("lost");
  expect((await ground.sandbox.inspect(own))?.state).toBe("exited");
  await ground.sandbox.start(own);
  expect((await ground.run(own, "echo again")).stdout.toString()).toBe("again\n");
  await ground.sandbox.remove(own);
});

test("an agent with backend bwrap lives without an engine: calls, a prompt, a restart of the gateway, its end", async () => {
  const gateway = makeGateway({ env: { DOCKER_HOST: "unix:///nowhere/docker.sock" } });
  try {
    await gateway.start();
    await gateway.apply(STACK);
    const call = async (command: string) => (await gateway.request("POST", "/api/agents/worker/exec", { command })).body;
    expect(await call("echo $BEIGE_AGENT; pwd; echo kept >/tmp/mark; hostname")).toMatchObject({
      exitCode: 0,
      content: [{ text: expect.stringMatching(/^worker\n\/workspace\nbwrap-/) as string }],
    });
    const { body } = await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/worker");
    const hardened = body.status.conditions.find((one: { type: string }) => one.type === "Hardened");
    expect(hardened).toMatchObject({ status: "True", reason: "AllLayers" });
    await gateway.kill();
    await gateway.start();
    expect(await call("cat /tmp/mark")).toMatchObject({ exitCode: 0, content: [{ text: expect.stringContaining("kept") as string }] });
    const again = (await gateway.apply(STACK)).find((event) => event.type === "plan").plan;
    expect(again.summary).toMatchObject({ create: 0, update: 0, replace: 0, unchanged: 2 });
    const doctor = await gateway.beige("doctor", "--sandbox", "worker");
    expect([doctor.code, doctor.out]).toStrictEqual([0, expect.stringContaining("its PID 1 filters")]);
    const [id = ""] = readdirSync(join(gateway.home, "bwrap"));
    expect(groupsOf(id).length).toBeGreaterThan(0);
    expect((await gateway.beige("delete", "agent/worker", "--yes")).code).toBe(0);
    await expect.poll(() => readdirSync(join(gateway.home, "bwrap")), { timeout: 10_000 }).toStrictEqual([]);
    expect(groupsOf(id)).toStrictEqual([]);
  } finally {
    await gateway.beige("delete", "agent/worker", "--yes");
    await gateway.clean();
  }
});

test("an image of its own, launchers and the way out work as with an engine", async () => {
  const server = createServer((request, response) => response.end(`reached ${request.url}\n`));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const gateway = makeGateway({ env: { DOCKER_HOST: "unix:///nowhere/docker.sock" } });
  const stack = (network: string): string => `${STACK.replace("spec:\n  model", "spec:\n  tools: [memory]\n  model")
    .replace("image: host", "image: tiny")
    .replace("pids: 64}", `pids: 64}, network: ${network}`)}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
`;
  const said = async (command: string): Promise<string> =>
    String((await gateway.request("POST", "/api/agents/worker/exec", { command })).body.content?.[0]?.text);
  const request = String.raw`GET http://localhost:${port}/x HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\n\r\n`;
  const proxied = `(printf '${request}'; sleep 0.4) | nc -w 1 127.0.0.1 3128`;
  try {
    unpackImage(gateway.home, "tiny");
    writeFileSync(join(gateway.home, "host.yaml"), JSON.stringify({ egress: { private: [`localhost:${port}`] } }), { mode: 0o600 });
    await gateway.start();
    await gateway.apply(stack("{mode: none}"));
    expect(await said("busybox | head -n 1; memory save here kept >/dev/null && memory list")).toMatch(/^BusyBox[^\n]*\n[^]*here/);
    expect(await said(proxied)).toMatch(/^HTTP\/1.1 403/);
    await gateway.apply(stack(`{mode: allowlist, allow: [{host: localhost, ports: [${port}], private: true}]}`));
    expect(await said(proxied)).toContain("reached /x\n");
    expect(await said(`printf x | nc -w 2 127.0.0.1 ${port} 2>&1`)).toContain("refused");
    await said('for p in /proc/[0-9]*; do grep -q "tool-client.pass" $p/cmdline && kill -9 ${p#/proc/}; done; true');
    await expect.poll(() => said(proxied), { timeout: 5000 }).toContain("reached /x\n");
  } finally {
    await gateway.beige("delete", "agent/worker", "--yes");
    await gateway.clean();
    server.close();
  }
});
