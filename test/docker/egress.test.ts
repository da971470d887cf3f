// The way out of real containers: what the manifest names is reached, nothing else is, by whichever road.
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeCertificate } from "../../src/adapters/certificate.ts";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";

const local = makeCertificate(Date.now(), "abcdef");
const VALUE = "real-value-0123456789abcdef";
let gateway: Gateway;
let tls: { readonly server: Server; readonly port: number };
let plain: { readonly server: Server; readonly port: number };
const seen: string[] = [];
const open = new Set<Socket>();

async function listen(server: Server): Promise<{ readonly server: Server; readonly port: number }> {
  server.on("connection", (socket: Socket) => open.add(socket));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { server, port: (server.address() as AddressInfo).port };
}

const stack = (network: string): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox:
    image: "beige-base:1"
    resources: {memory: 256Mi, cpus: 1, pids: 64}
    network: ${network}
`;

async function run(command: string): Promise<{ readonly code: number; readonly out: string }> {
  const { body } = await gateway.request("POST", "/api/agents/a/exec", { tool: "exec", params: { command, timeout: 30 } });
  return { code: body.exitCode as number, out: String(body.content?.[0]?.text) };
}

/** Names of this machine are not for the proxy by NO_PROXY; here they are. */
const curl = (args: string): string => `curl -sS --max-time 10 --noproxy '' ${args}`;
const allow = (...entries: string[]): string => `{mode: allowlist, allow: [${entries.join(", ")}]}`;
const entry = (port: number, more = ""): string => `{host: localhost, ports: [${port}], private: true${more}}`;

beforeAll(async () => {
  tls = await listen(
    createServer(local, (request, response) => {
      seen.push(String(request.headers.authorization));
      if (request.url === "/drip") {
        response.write("begun\n");
        return;
      }
      if (request.url === "/big") response.end("x".repeat(5_000_000));
      else response.end(`hello by tls ${String(request.headers["x-who"])}\n`);
    }),
  );
  plain = await listen(createHttp((request, response) => response.end(`hello by http ${request.url}\n`)) as unknown as Server);
  gateway = makeGateway();
  mkdirSync(join(gateway.home, "secrets"), { recursive: true });
  writeFileSync(join(gateway.home, "secrets/gh"), `${VALUE}\n`, { mode: 0o600 });
  writeFileSync(join(gateway.home, "local.crt"), local.cert);
  const hosts = [`localhost:${tls.port}`, `localhost:${plain.port}`];
  const policy = { secrets: [{ name: "gh", file: join(gateway.home, "secrets/gh"), hosts: [hosts[0]] }], egress: { private: hosts } };
  writeFileSync(join(gateway.home, "host.yaml"), JSON.stringify(policy), { mode: 0o600 });
  await gateway.start({ NODE_EXTRA_CA_CERTS: join(gateway.home, "local.crt") });
  await gateway.apply(stack("{mode: none}"));
});

afterAll(async () => {
  await gateway.clean();
  for (const socket of open) socket.destroy();
  tls.server.close();
  plain.server.close();
});

const ca = "--cacert /workspace/local.crt";

test("without a network there is no way out but the gateway's, which says what would open it; the manifest opens it live", async () => {
  await run(`cat > local.crt <<'END'\n${local.cert}END`);
  const [box] = gateway.containers();
  expect((await run(curl(`https://localhost:${tls.port}/ ${ca}`))).code).toBe(56);
  const said = await run(curl("http://example.com/"));
  expect(said.out).toContain('spec.sandbox.network: {mode: allowlist, allow: ["example.com:80"]}');
  await gateway.apply(stack(allow(entry(tls.port), entry(plain.port), '"*.example.com"')));
  expect(await run(curl(`https://localhost:${tls.port}/ ${ca} -H 'x-who: me'`))).toEqual({ code: 0, out: "hello by tls me\n" });
  expect(await run(curl(`http://localhost:${plain.port}/path`))).toEqual({ code: 0, out: "hello by http /path\n" });
  expect((await run(`${curl(`https://localhost:${tls.port}/big ${ca}`)} | wc -c`)).out.trim()).toBe("5000000");
  expect((await run(curl("https://example.com/"))).code).toBe(56);
  expect(gateway.containers()).toEqual([box]);
  const log = await gateway.beige("egress", "log", "a", "-o", "json");
  const rows = log.out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const reached = rows.find((row) => row["port"] === tls.port && row["decision"] === "allowed");
  expect(reached).toMatchObject({ agent: "a", type: "egress", host: "localhost", ip: "127.0.0.1", outcome: "ok" });
  expect(rows.filter((row) => row["host"] === "example.com")).toHaveLength(2);
  expect((await gateway.beige("egress", "test", "a", "example.com")).code).toBe(1);
  expect(await gateway.beige("egress", "test", "a", `localhost:${tls.port}`)).toMatchObject({
    code: 0,
    out: expect.stringContaining("allowed"),
  });
  expect((await gateway.beige("describe", "agent/a")).out).toContain(`allowlist: localhost:${tls.port} (private)`);
});

test("every road around the gateway is closed", async () => {
  const addresses = Object.values(networkInterfaces()).flatMap((all) =>
    (all ?? []).filter((one) => one.family === "IPv4" && !one.internal),
  );
  const host = addresses.map(({ address }) => address);
  const direct = [`127.0.0.1:${tls.port}`, ...host.map((address) => `${address}:${tls.port}`), `169.254.169.254:80`, `[::1]:${tls.port}`];
  for (const at of direct) expect([at, (await run(`curl -sS -k --max-time 3 --noproxy '*' https://${at}/`)).code]).toEqual([at, 7]);
  expect((await run("curl -sS --max-time 5 --noproxy '*' http://example.com/")).code).toBe(6);
  expect((await run("cat /proc/net/route | wc -l; ls /sys/class/net")).out).toBe("1\nlo\n");
  // Through the gateway: addresses in all clothes, other ports, the gateway's own doors, and names that lie in the hello.
  const through = ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"];
  for (const at of through) {
    const { out } = await run(
      `bash -c "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT ${at}:${tls.port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; head -1 <&3"`,
    );
    expect([at, out.slice(0, 12)]).toEqual([at, expect.stringMatching(/^HTTP\/1.1 40[03]/)]);
  }
  const lie = await run(curl(`--connect-to other.dev:${tls.port}:localhost:${tls.port} -k https://other.dev:${tls.port}/`));
  expect(lie.code).not.toBe(0);
  // The socket itself may be used without the relay: it is the same proxy.
  expect((await run("curl -sS --max-time 5 --unix-socket /beige/egress.sock http://example.com/")).out).toContain("beige:");
});

test("a change cuts what runs and is no longer allowed, and the container stays", async () => {
  const [box] = gateway.containers();
  const dripping = run(curl(`--max-time 20 https://localhost:${tls.port}/drip ${ca}`));
  await pause(1500);
  const from = Date.now();
  await gateway.apply(stack(allow(entry(plain.port))));
  const { code } = await dripping;
  expect(code).not.toBe(0);
  expect(Date.now() - from).toBeLessThan(8000);
  expect((await run(curl(`https://localhost:${tls.port}/ ${ca}`))).code).toBe(56);
  expect(gateway.containers()).toEqual([box]);
});

test("the relay comes back when a command ends it, and after the gateway was killed", async () => {
  const get = curl(`http://localhost:${plain.port}/again`);
  await run('for p in /proc/[0-9]*; do grep -q "tool-client.pass" $p/cmdline && kill -9 ${p#/proc/}; done; true');
  await until(async () => (await run(get)).code === 0, 5000, "a new relay");
  await gateway.kill();
  await gateway.start({ NODE_EXTRA_CA_CERTS: join(gateway.home, "local.crt") });
  await until(async () => (await run(get)).code === 0, 10_000, "the way out is there again");
  expect(
    (
      await run(
        `bash -c 'for i in $(seq 30); do (for k in $(seq 10); do exec {fd}<>/dev/tcp/127.0.0.1/3128; done; sleep 1) 2>/dev/null & done; wait'`,
      )
    ).code,
  ).toBe(0);
  expect((await run(get)).code).toBe(0);
});

test("a secret reaches its host and never the sandbox", async () => {
  await gateway.apply(stack(allow(entry(tls.port, ", secret: gh"))));
  seen.length = 0;
  const said = await run(curl(`https://localhost:${tls.port}/ -H 'authorization: Bearer placeholder' -H 'x-who: gh'`));
  expect(said).toEqual({ code: 0, out: "hello by tls gh\n" });
  expect(seen).toEqual([`Bearer ${VALUE}`]);
  const inside = await run(`env; cat /beige/* 2>/dev/null | tr -d '\\0'; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'`);
  expect(inside.out).not.toContain(VALUE);
  expect((await run("node -e \"fetch('https://localhost:" + tls.port + "/').then(r=>r.text()).then(console.log)\"")).code).not.toBe(0);
});
