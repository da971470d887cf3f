// Portkey's gateway in the gateway's place, where `BEIGE_PEERS=1` asks for it: fetched by npm into a folder that goes away again.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import type { Goal } from "./gateway-load.ts";
import { freePort, type Peer } from "./gateway-nginx.ts";
import { pin } from "./gateway-rig.ts";

const PACKAGE = "@portkey-ai/gateway@1.15.2";
const START_MS = 15_000;

/** Undefined where nobody asks for it, or it cannot be had. */
export async function startPortkey(direct: Goal): Promise<Peer | undefined> {
  if (process.env["BEIGE_PEERS"] !== "1" || typeof direct.to !== "number") return undefined;
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-portkey-"));
  atEnd.push(async () => rmSync(folder, { recursive: true, force: true }));
  const flags = ["--prefix", folder, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
  const fetched = spawnSync("npm", ["install", ...flags, PACKAGE], { stdio: ["ignore", "ignore", "ignore"], timeout: 120_000 });
  if (fetched.status !== 0) {
    console.error(`gateway: npm cannot fetch ${PACKAGE}, so that no line says what it takes`);
    return undefined;
  }
  const port = await freePort();
  const server = join(folder, "node_modules/@portkey-ai/gateway/build/start-server.js");
  const child = spawn(process.execPath, [server, `--port=${port}`, "--headless"], { stdio: "ignore", cwd: folder });
  atEnd.push(async () => {
    const gone = new Promise((done) => child.once("exit", done));
    if (child.exitCode === null && child.kill("SIGKILL")) await gone;
  });
  const answers = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    );
  await until(answers, START_MS, "portkey answers");
  pin(child.pid ?? 0);
  const headers = `x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:${direct.to}/v1\r\n`;
  return { name: "portkey", goal: { ...direct, to: port, headers }, pid: child.pid ?? 0 };
}
