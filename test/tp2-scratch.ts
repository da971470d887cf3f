import { openRig, residentOf } from "./resident/rig.ts";
import { execFileSync, spawn } from "node:child_process";
const MB = 100;
const cmd = process.argv[2] === "dd" ? ["dd", "if=/dev/zero", "bs=65536", "count=1600"] : ["head", "-c", String(MB << 20), "/dev/zero"];
const r = openRig();
const on = residentOf(r);
const st = process.argv[3]
  ? spawn("strace", ["-f", "-c", "-o", "/tmp/st.out", "-p", String(r.child.pid)], { stdio: "inherit" })
  : undefined;
await new Promise((x) => setTimeout(x, st ? 500 : 50));
for (let i = 0; i < 3; i++) {
  const c0 = process.cpuUsage();
  const t = performance.now();
  const h = await on.exec("box", { command: cmd, cwd: "/", timeoutMs: 60000 });
  await h.end();
  let n = 0,
    c = 0;
  for await (const { data, stream } of h.output)
    if (stream === "stdout") {
      n += data.length;
      c++;
    }
  await h.exit;
  const ms = performance.now() - t;
  const cu = process.cpuUsage(c0);
  console.log(
    ((n / 1048576 / ms) * 1000).toFixed(0),
    "MiB/s pieces",
    c,
    "node cpu ms",
    ((cu.user + cu.system) / 1000).toFixed(0),
    "wall",
    ms.toFixed(0),
  );
}
try {
  console.log(
    execFileSync("cat", [`/proc/${r.child.pid}/stat`])
      .toString()
      .split(" ")
      .slice(13, 17)
      .join(" "),
  );
} catch {}
on.close();
await r.end();
if (st) {
  await new Promise((x) => setTimeout(x, 500));
}
process.exit(0);
