import { execSync } from "node:child_process";
import Dockerode from "dockerode";
import { openGround } from "./docker/ground.ts";
import { openRig, residentOf } from "./resident/rig.ts";
const MB = 100;
const cmd = ["head", "-c", String(MB << 20), "/dev/zero"];
const mode = process.argv[2] ?? "all";
async function viaHandle(h: any) {
  let n = 0,
    c = 0;
  await h.end();
  for await (const { data } of h.output) {
    n += data.length;
    c++;
  }
  const e = await h.exit;
  if (n !== MB << 20 || e.code !== 0) throw new Error(`${n} ${JSON.stringify(e)}`);
  return c;
}
async function time(name: string, f: () => Promise<any>) {
  const cpu = () =>
    execSync(
      "for p in $(pgrep -x dockerd) $(pgrep containerd-shim) $(pgrep -x containerd); do echo $(cut -d\\  -f2,14,15 /proc/$p/stat); done",
    ).toString();
  const b = cpu();
  const c0 = process.cpuUsage();
  const t = performance.now();
  const r = await f();
  const ms = performance.now() - t;
  const cu = process.cpuUsage(c0);
  const sum = (x: string) => {
    const m: Record<string, number> = {};
    for (const l of x.trim().split("\n")) {
      const w = l.split(" ");
      m[w[0]!] = (m[w[0]!] ?? 0) + Number(w[1]) + Number(w[2]);
    }
    return m;
  };
  const A = sum(cpu()),
    B = sum(b);
  console.log(
    Object.keys(A)
      .map((k) => `${k} ${(A[k]! - (B[k] ?? 0)) * 10}ms`)
      .join(" "),
    "node",
    ((cu.user + cu.system) / 1000).toFixed(0),
    "wall",
    ms.toFixed(0),
    name,
    ((MB / ms) * 1000).toFixed(0),
    "MiB/s",
    r ?? "",
  );
}
if (mode !== "rig") {
  const g = openGround();
  const id = await g.up({ memoryBytes: 512 << 20, cpus: 2 });
  const d = new (Dockerode as any)();
  const bare = async () => {
    const e = await d.getContainer(id).exec({ Cmd: cmd, AttachStdout: true, AttachStderr: true });
    const s = await e.start({ hijack: true, stdin: false });
    let n = 0;
    s.on("data", (x: Buffer) => (n += x.length));
    await new Promise((r) => s.once("end", r));
    await e.inspect();
  };
  for (let i = 0; i < 3; i++) {
    await time("docker resident", async () => viaHandle(await g.sandbox.exec(id, { command: cmd, timeoutMs: 60000 })));
    await time("docker bare", bare);
  }
  await g.cleanup();
}
if (mode !== "docker") {
  const r = openRig();
  const on = residentOf(r);
  for (let i = 0; i < 3; i++)
    await time("pipes resident", async () => viaHandle(await on.exec("box", { command: cmd, cwd: "/", timeoutMs: 60000 })));
  on.close();
  await r.end();
}
process.exit(0);
