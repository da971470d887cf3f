// `npm run build`: what is published. tsc writes the modules, esbuild the command line as one file, and assets go beside them.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const dist = join(root, "dist");

/** Files that the built modules read at run time, at the same place below dist/ as in the sources. */
const ASSETS = [
  "sandbox/*.sh",
  "sandbox/guest/Dockerfile*",
  "sandbox/guest/bin/*",
  "sandbox/*.json",
  "plugins/*/plugin.json",
  "plugins/*/*.md",
];

/** Verbs that read YAML load these when they run; read verbs never do. */
const HEAVY = /\/(offline|hostfile)\.ts$/;
/** What draws the terminal stays modules: its SDK is not ours to bundle. */
const TERMINAL = /\/tui\/run\.ts$/;

const apart: Plugin = {
  name: "apart",
  setup(building) {
    building.onResolve({ filter: HEAVY }, ({ path, kind }) =>
      kind === "dynamic-import" ? { path: path.replace(/^.*\/(\w+)\.ts$/, "./$1.js"), external: true } : undefined,
    );
    building.onResolve({ filter: TERMINAL }, () => ({ path: "./src/tui/run.js", external: true }));
  },
};

const shared = {
  bundle: true,
  platform: "node",
  target: "node24",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
  outdir: dist,
} as const;

function modules(): void {
  const tsc = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", join(root, "tsconfig.build.json")], {
    cwd: root,
    stdio: "inherit",
  });
  if (tsc.status !== 0) throw new Error("tsc failed");
}

async function commandLine(): Promise<void> {
  // CommonJS, since there a verb that is not run does not even load the parts of Node that it uses.
  await build({
    ...shared,
    format: "cjs",
    outExtension: { ".js": ".cjs" },
    entryPoints: { cli: join(root, "src/cli/main.ts") },
    plugins: [apart],
    // Of one verb, and never loaded by another.
    external: ["ws"],
    define: { "import.meta.url": "ownUrl" },
    banner: {
      js: 'const ownUrl = require("node:url").pathToFileURL(__filename).href; const ownImport = module.ownImport ?? ((name) => import(name));',
    },
  });
  // The door runs it from kept code, and then imports for it; it keeps the code of just this text.
  const text = readFileSync(join(dist, "cli.cjs"), "utf8").replaceAll(/\bimport\((?=")/g, "ownImport(");
  writeFileSync(join(dist, "cli.cjs"), `// ${createHash("sha256").update(text).digest("hex")}\n${text}`);
  // yaml asks for parts of Node by require, also in a module.
  const banner = { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' };
  const entryPoints = { offline: join(root, "src/cli/offline.ts"), hostfile: join(root, "src/cli/hostfile.ts") };
  await build({ ...shared, format: "esm", entryPoints, splitting: true, chunkNames: "shared-[hash]", banner });
  // The same sources as modules are not needed beside the bundle.
  rmSync(join(dist, "src/cli"), { recursive: true, force: true });
}

function assets(): void {
  for (const path of ASSETS.flatMap((pattern) => globSync(pattern, { cwd: root }))) {
    const to = join(dist, path);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(join(root, path), to, { recursive: true });
  }
  for (const path of globSync("sandbox/guest/bin/*", { cwd: dist })) chmodSync(join(dist, path), 0o755);
}

const started = performance.now();
rmSync(dist, { recursive: true, force: true });
modules();
await commandLine();
assets();
if (!existsSync(join(dist, "cli.cjs"))) throw new Error("dist/cli.cjs was not written");
console.log(`built dist/ in ${((performance.now() - started) / 1000).toFixed(1)} s`);
