// A real gateway with a hostile agent on each backend and a victim beside them: what its sockets answer to whoever lies to them.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { unpackImage } from "../bwrapground.ts";
import { makeGateway, type Gateway } from "../../gateway.ts";
import { BACKENDS, type Everywhere as Backend } from "./attempts.ts";
import type { Host } from "./host.ts";
import type { Row } from "./table.ts";

type Note = (row: Omit<Row, "backend">) => void;

export interface Town {
  frames(backend: Backend, note: Note): Promise<void>;
  egress(backend: Backend, note: Note): Promise<void>;
  close(): Promise<void>;
}

const SANDBOX: Readonly<Record<Backend | "victim", string>> = {
  strict: 'image: "beige-tiny:1"',
  packages: 'image: "beige-tiny:1", profile: packages',
  bwrap: "image: tiny, backend: bwrap",
  victim: 'image: "beige-tiny:1"',
};

const agent = ([name, words]: readonly [string, string]): string => `
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: offline, id: echo-1}
  tools: [memory]
  sandbox:
    ${words.split(", ").join("\n    ")}
    resources: {memory: 128Mi, cpus: 500m, pids: 64}
    network: {mode: allowlist, allow: ["allowed.example.com:443"]}
`;
const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
${Object.entries(SANDBOX).map(agent).join("")}`;

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Lines that are no frames, or frames that no client of ours sends. */
const GARBAGE = [
  "",
  "x",
  "[]",
  "null",
  '{"type":"tool_response","success":true}',
  '{"type":"tool_request"}',
  '{"type":"hello","container":"../x"}',
];

async function foreign(gateway: Gateway, run: Run, backend: Backend): Promise<boolean> {
  const uid = (await gateway.request("GET", "/api/agents/victim")).body.uid as string;
  const victim = { agent: "victim", name: "victim", uid, namespace: "default", principal: { kind: "operator" }, session: "cli:default" };
  const key = `forged-${backend}`;
  const frames = [
    { type: "tool_request", tool: "memory", args: ["save", key, "x"], ...victim, caller: victim },
    { type: "tool_request", tool: "exec", args: ["id"], params: { command: "id" }, ...victim },
  ];
  const answers: string[] = [];
  for (const frame of frames) answers.push(await run(`printf '%s\\n' ${quote(JSON.stringify(frame))} | probe say /beige/gateway.sock`));
  expect(answers).toStrictEqual([expect.stringContaining(key), expect.stringContaining("Permission denied")]);
  const rows = readFileSync(join(gateway.home, "logs/audit.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line.includes(key))
    .map((line) => JSON.parse(line) as { agent: string; tool: string; args: readonly string[]; session?: string })
    .filter(({ tool, args }) => tool === "memory" && args[1] === key);
  return rows.length === 0 || rows.some((row) => row.agent !== backend || row.session !== undefined);
}

type Run = (command: string) => Promise<string>;

export async function openTown(probe: string, host: Host): Promise<Town> {
  const gateway = makeGateway();
  unpackImage(gateway.home, "tiny");
  const exec = async (name: string, command: string): Promise<string> => {
    const { body } = await gateway.request("POST", `/api/agents/${name}/exec`, { command, timeout: 20 });
    return String(body.content?.[0]?.text ?? JSON.stringify(body));
  };
  await gateway.start();
  await gateway.apply(STACK);
  for (const backend of BACKENDS) {
    const workspace = join(gateway.home, `agents/default.${backend}/workspace`);
    mkdirSync(workspace, { recursive: true });
    copyFileSync(probe, join(workspace, "probe"));
  }
  const inside =
    (backend: Backend): Run =>
    (command) =>
      exec(backend, `export PATH=$PATH:/workspace; ${command}`);
  return {
    async frames(backend, note) {
      const run = inside(backend);
      const lies = await foreign(gateway, run, backend);
      note({ what: "say another agent's name in a frame", outcome: "counted as its own", layer: "socket is the identity", escaped: lies });
      expect(lies).toBe(false);
      expect(await exec("victim", "memory list")).not.toContain("forged");
      for (const line of GARBAGE) await run(`printf '%s\\n' ${quote(line)} | probe say /beige/gateway.sock`);
      await run(
        "head -c 3000000 /dev/zero | tr '\\0' x | probe say /beige/gateway.sock; head -c 70000 /dev/urandom | probe say /beige/gateway.sock",
      );
      await run("(for i in 1 2 3 4 5 6 7 8; do sleep 5 | probe say /beige/gateway.sock & done; wait) >/dev/null 2>&1 & true");
      const alive = (await exec("victim", "memory list; echo alive")).includes("alive");
      note({ what: "flood and garble the socket", outcome: "others served", layer: "bounded frames, own listener", escaped: !alive });
      expect(alive).toBe(true);
    },
    async egress(backend, note) {
      const run = inside(backend);
      const connect = (at: string): string => `printf 'CONNECT ${at} HTTP/1.1\\r\\nHost: allowed.example.com:443\\r\\n\\r\\n'`;
      const targets = ["127.0.0.1", host.address, host.bridge, host.other, "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost"];
      const answers: string[] = [];
      for (const target of [...targets.map((name) => `${name}:${host.port}`), "169.254.169.254:80", "leak.allowed.example.com:443"])
        for (const way of ["nc -w 3 127.0.0.1 3128", "probe say /beige/egress.sock"])
          answers.push((await run(`${connect(target)} | ${way} 2>&1`)).split("\r\n")[0] ?? "");
      const smuggled = `printf 'GET http://allowed.example.com:443/ HTTP/1.1\\r\\nHost: ${host.address}:${host.port}\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n'`;
      answers.push((await run(`${smuggled} | probe say /beige/egress.sock`)).split("\r\n")[0] ?? "");
      const through = answers.filter((line) => !/^HTTP\/1\.1 4\d\d/.test(line));
      note({
        what: "ask the proxy for what is not allowed",
        outcome: `${answers.length} refused`,
        layer: "egress proxy",
        escaped: through.length > 0,
      });
      const direct = await run(`nc -w 2 ${host.address} ${host.port} </dev/null 2>&1 || nc -w 2 127.0.0.1 ${host.port} </dev/null 2>&1`);
      note({
        what: "go out beside the proxy",
        outcome: "no route",
        layer: "network namespace of its own",
        escaped: /port of the host/.test(direct),
      });
      expect([through, direct.includes("port of the host"), host.visits()]).toStrictEqual([[], false, 0]);
    },
    async close() {
      for (const name of Object.keys(SANDBOX)) await gateway.beige("delete", `agent/${name}`, "--yes");
      await gateway.clean();
    },
  };
}
