// Runs a script of this repository under Node 24, whatever Node started it: installs the locked dependencies
// first (Node 24 is one of them), then hands over. Plain JavaScript, so that any Node from 18 on can read it.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const modules = join(root, "node_modules");
const stamp = join(modules, ".beige-lock");
const lock = createHash("sha256")
  .update(readFileSync(join(root, "package-lock.json")))
  .digest("hex");
const installed = existsSync(stamp) && readFileSync(stamp, "utf8") === lock;

if (!installed) {
  console.error("installing dependencies (again only when package-lock.json changes)");
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (npm.status !== 0) {
    console.error("npm ci failed: see above; run it again when the registry answers");
    process.exit(npm.status ?? 1);
  }
  writeFileSync(stamp, lock);
}

const major = Number(process.versions.node.split(".")[0]);
const local = join(modules, "node", "bin", "node");
const node = major >= 24 ? process.execPath : local;
if (!existsSync(node)) {
  console.error(`Node 24 is not in ${modules}: remove that folder and try again, or install Node 24`);
  process.exit(1);
}
const path = `${dirname(node)}:${join(modules, ".bin")}:${process.env.PATH ?? ""}`;
const child = spawn(node, process.argv.slice(2), { stdio: "inherit", env: { ...process.env, PATH: path } });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => {
  process.exitCode = code ?? (signal === "SIGINT" ? 130 : 143);
});
