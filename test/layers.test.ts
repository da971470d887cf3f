// The architecture as a test: who may import whom, one door per dependency, sizes, and a sentence at the top of each file.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

function walk(folder: string): string[] {
  return readdirSync(join(root, folder)).flatMap((name) => {
    const path = `${folder}/${name}`;
    if (name === "node_modules" || name === "dist") return [];
    if (statSync(join(root, path)).isDirectory()) return walk(path);
    return name.endsWith(".ts") ? [path] : [];
  });
}

const files = ["schemas", "src", "controllers", "sandbox", "plugins"].flatMap(walk).filter((file) => !file.endsWith(".test.ts"));
const text = (file: string): string => readFileSync(join(root, file), "utf8");

/** The room that a file stands in. */
function layer(file: string): string {
  if (file.startsWith("controllers/")) return file === "controllers/index.ts" ? "controllers" : `controllers/${file.split("/")[1]}`;
  if (file.startsWith("plugins/")) return `plugins/${file.split("/")[1]}`;
  if (file === "src/daemon.ts" || file.startsWith("src/daemon/")) return "src/daemon";
  if (file === "src/index.ts") return file;
  return file.startsWith("src/") ? file.split("/").slice(0, 2).join("/") : (file.split("/")[0] ?? "");
}

/** What each room may import besides itself. Rooms that are not named may import schemas and core. */
const MAY: Readonly<Record<string, readonly string[]>> = {
  schemas: [],
  "src/core": ["schemas"],
  controllers: ["schemas", "src/core", ...["agent", "plugin", "provider", "schedule", "source"].map((kind) => `controllers/${kind}`)],
  "src/daemon": ["*"],
  // The command line's own room for its terminal: the only part of it that loads the SDK.
  "src/cli": ["schemas", "src/core", "src/tui"],
  "src/index.ts": ["schemas", "src/core"],
};

/** The only files or folders that name a dependency. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  yaml: ["src/core/manifest.ts"],
  ajv: ["src/core/validate.ts"],
  "fast-json-patch": ["src/core/diff.ts"],
  croner: ["src/core/cron.ts"],
  dockerode: ["sandbox/docker.ts"],
  "@mariozechner/pi-coding-agent": ["src/adapters/pi", "src/tui"],
  "@earendil-works/pi-ai": ["src/adapters/pi", "src/tui"],
  typebox: ["src/adapters/pi"],
  pino: ["src/adapters/log.ts"],
  "node:sqlite": ["src/engine/store", "src/adapters/lock.ts"],
  fastify: ["src/api"],
  ws: ["src/api/kube", "src/cli/sit.ts"],
  "prom-client": ["src/adapters/metrics"],
  "@opentelemetry/api": ["src/adapters/tracing"],
  "@opentelemetry/sdk-trace": ["src/adapters/tracing"],
  "@opentelemetry/resources": ["src/adapters/tracing"],
  "@opentelemetry/exporter-trace-otlp-http": ["src/adapters/tracing"],
  chokidar: ["src/adapters/watch.ts"],
};

interface Import {
  readonly file: string;
  readonly target: string;
}

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s[^"'`;]*?from\s*["']([^"']+)["']|(?:^|\n)\s*import\s*["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/g;
const imports: readonly Import[] = files.flatMap((file) =>
  [...text(file).matchAll(IMPORT)].map((match) => ({ file, target: match[1] ?? match[2] ?? match[3] ?? "" })),
);

test("imports go in one direction and siblings are strangers", () => {
  const wrong = imports.flatMap(({ file, target }) => {
    if (!target.startsWith(".")) return [];
    const to = layer(relative(root, normalize(join(root, dirname(file), target))));
    const from = layer(file);
    const allowed = MAY[from] ?? ["schemas", "src/core"];
    return from === to || allowed.includes(to) || allowed.includes("*") ? [] : [`${file} imports ${target}`];
  });
  expect(wrong).toEqual([]);
});

test("each dependency has one door", () => {
  const wrong = imports.flatMap(({ file, target }) => {
    if (target.startsWith(".")) return [];
    const name = target.startsWith("node:")
      ? target
      : target
          .split("/")
          .slice(0, target.startsWith("@") ? 2 : 1)
          .join("/");
    const doors = DOORS[name];
    if (doors === undefined) return name.startsWith("node:") ? [] : [`${file} imports ${name}, which has no door`];
    return doors.some((door) => file === door || file.startsWith(door)) ? [] : [`${file} imports ${name}; its door is ${doors.join(", ")}`];
  });
  expect(wrong).toEqual([]);
});

test("core does no input, output or waiting of its own", () => {
  const pure = new Set(["node:crypto", "node:path/posix", "node:util"]);
  const wrong = imports.filter(({ file, target }) => layer(file) === "src/core" && target.startsWith("node:") && !pure.has(target));
  expect(wrong).toEqual([]);
});

test("a plugin that ships with beige uses the public plugin API only, as a stranger's would", () => {
  const wrong = imports.filter(
    ({ file, target }) => file.startsWith("plugins/") && target.startsWith("../..") && !target.endsWith("/src/core/plugin.ts"),
  );
  expect(wrong).toEqual([]);
});

test("no file is longer than 300 lines, and each opens with its duty", () => {
  const written = files.filter((file) => file !== "schemas/types.ts");
  expect(written.filter((file) => text(file).split("\n").length > 301)).toEqual([]);
  expect(written.filter((file) => !text(file).startsWith("// "))).toEqual([]);
});
