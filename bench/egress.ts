// What a TLS request costs more from inside a sandbox through the allowlist than from the host straight to the same server.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificate } from "../src/adapters/certificate.ts";
import { makeGateway } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import { interleaved, type Line } from "./measure.ts";

const LIMIT_MS = 5;
const BIG_BYTES = 50 * 1024 * 1024;

const stack = (port: number): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: out}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "beige-base:1", network: {mode: allowlist, allow: [{host: localhost, ports: [${port}], private: true}]}}
`;

const hostCurl = (args: readonly string[]): Promise<string> =>
  new Promise((done, fail) => {
    execFile("curl", args, (error, out) => (error === null ? done(out) : fail(error)));
  });

export async function leaving(program: string): Promise<readonly Line[]> {
  const local = makeCertificate(Date.now(), "abcdef");
  const big = Buffer.alloc(BIG_BYTES, 120);
  const server = createServer(local, (request, response) => void response.end(request.url === "/big" ? big : "hello\n"));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-egress-"));
  const gateway = makeGateway({ program });
  atEnd.push(async () => {
    await gateway.clean();
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  mkdirSync(gateway.home, { recursive: true });
  writeFileSync(join(folder, "ca.crt"), local.cert);
  writeFileSync(join(gateway.home, "host.yaml"), JSON.stringify({ egress: { private: [`localhost:${port}`] } }), { mode: 0o600 });
  await gateway.start();
  await gateway.apply(stack(port));
  const exec = async (command: string): Promise<string> => {
    const { body } = await gateway.request("POST", "/api/agents/out/exec", { command });
    if (body.exitCode !== 0) throw new Error(`${command}: ${JSON.stringify(body)}`);
    return String(body.content[0].text);
  };
  await exec(`cat > /workspace/ca.crt <<'END'\n${local.cert}END`);
  const words = (path: string, what: string) => [
    "-sS",
    "--noproxy",
    "",
    "-o",
    "/dev/null",
    "-w",
    `%{${what}}`,
    `https://localhost:${port}${path}`,
  ];
  const quoted = (path: string, what: string): string =>
    `curl --cacert /workspace/ca.crt ${words(path, what)
      .map((word) => `'${word}'`)
      .join(" ")}`;
  const direct = async (path: string, what: string): Promise<number> =>
    Number(await hostCurl(["--cacert", join(folder, "ca.crt"), ...words(path, what)]));
  const through = async (path: string, what: string): Promise<number> => Number(await exec(quoted(path, what)));
  const pair = await interleaved(
    { turns: 60, warmUp: 5 },
    async () => 1000 * (await through("/", "time_total")),
    async () => 1000 * (await direct("/", "time_total")),
  );
  const added = pair.value - pair.floor;
  const rates = await interleaved(
    { turns: 5, warmUp: 1 },
    async () => 1000 * (await through("/big", "time_total")),
    async () => 1000 * (await direct("/big", "time_total")),
  );
  const mib = (ms: number): string => `${((BIG_BYTES / 1024 / 1024 / ms) * 1000).toFixed(0)} MiB/s`;
  return [
    {
      line: "an allowlisted TLS GET, added",
      unit: "ms",
      value: added,
      ratio: added,
      limit: LIMIT_MS,
      met: added <= LIMIT_MS,
      note: `curl's own time: ${pair.value.toFixed(1)} through, ${pair.floor.toFixed(1)} direct; 50 MiB: ${mib(rates.value)} through, ${mib(rates.floor)} direct`,
    },
  ];
}
