// nginx in the gateway's place, where it is installed: the least that a proxy on the same core costs.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pause } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import type { Goal } from "./gateway-load.ts";
import { pin } from "./gateway-rig.ts";

export interface Peer {
  readonly name: string;
  readonly goal: Goal;
  /** Of the process that works. */
  readonly pid: number;
}

const confOf = (folder: string, port: number, to: number): string => `daemon off; worker_processes 1; pid ${folder}/pid;
error_log ${folder}/error.log;
events { worker_connections 4096; }
http {
  access_log ${folder}/access.log;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  keepalive_requests 1000000;
  upstream provider { server 127.0.0.1:${to}; keepalive 256; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
  }
}
`;

export const freePort = (): Promise<number> =>
  new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });

const binary = (): string | undefined => ["nginx", "/usr/sbin/nginx"].find((path) => spawnSync(path, ["-v"]).status === 0);

/** The worker is the master's only child. */
const workerOf = ({ pid }: ChildProcess): number => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim());

/** Undefined where it is not installed. */
export async function startNginx(direct: Goal): Promise<Peer | undefined> {
  const path = binary();
  if (path === undefined || typeof direct.to !== "number") return undefined;
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-nginx-"));
  const port = await freePort();
  writeFileSync(join(folder, "nginx.conf"), confOf(folder, port, direct.to));
  const master = spawn(path, ["-p", folder, "-c", join(folder, "nginx.conf")], { stdio: "ignore" });
  atEnd.push(async () => {
    const gone = new Promise((done) => master.once("exit", done));
    if (master.exitCode === null && master.kill("SIGTERM")) await gone;
    rmSync(folder, { recursive: true, force: true });
  });
  await pause(500);
  const pid = workerOf(master);
  if (pid === 0) throw new Error("nginx does not start");
  pin(pid);
  return { name: "nginx", goal: { ...direct, to: port }, pid };
}
