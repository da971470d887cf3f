// Looks at a plugin's folder: where it is, what its plugin.json says, and a hash of its code. Runs nothing of it.
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { lstat, open, readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { isCoreTool } from "../../core/call.ts";
import { BeigeError } from "../../core/errors.ts";
import { resolvePath, within } from "../../core/paths.ts";
import type { PluginManifest } from "../../core/plugin.ts";
import type { HostPolicy, PluginSource } from "../../../schemas/types.ts";
import { messageOf } from "../deadline.ts";

const MANIFEST_BYTES_MAX = 64 * 1024;
const FILES_MAX = 2_000;
const BYTES_MAX = 32 * 1024 * 1024;
const LIST_MAX = 64;
export const TOOL_NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;
export const HOOKS = ["preToolCall", "postToolCall", "onToolStart", "prePrompt", "preResponse", "postResponse", "modelSwitched"] as const;
const PLUGIN_NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

const code = (error: unknown): string => (error as { code?: string }).code ?? "";
const invalid = (message: string, hint?: string): BeigeError => new BeigeError("invalid", message, hint === undefined ? {} : { hint });

async function realFolder(path: string, name: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    throw new BeigeError("not_found", `plugin folder of ${name} does not exist`, { hint: `ls -d ${path}` });
  }
}

export interface Roots {
  readonly builtins: string;
  readonly host: HostPolicy;
}

async function findRoot(source: PluginSource, origin: string | undefined, roots: Roots): Promise<string> {
  if (source.builtin !== undefined) {
    if (!PLUGIN_NAME.test(source.builtin)) throw invalid(`builtin plugin name ${JSON.stringify(source.builtin)} is not valid`);
    return realFolder(join(roots.builtins, source.builtin), source.builtin);
  }
  if (source.path === undefined) throw invalid("source of plugin is not in this version: use builtin or path");
  const path = resolvePath(source.path, origin);
  if (path === undefined) throw invalid(`plugin path ${source.path} is relative and its manifest has no folder`, "give an absolute path");
  const root = await realFolder(path, source.path);
  const allowed = await Promise.all(roots.host.paths.plugins.map((allow) => realpath(allow).catch(() => undefined)));
  if (allowed.some((allow) => allow !== undefined && within(root, allow))) return root;
  throw new BeigeError("denied", `plugin folder ${root} is not below a root that host.yaml allows`, {
    hint: `in host.yaml: paths: {plugins: [${root}]}`,
  });
}

/** A regular file below the root, read without following a link in its last part. */
async function readBelow(root: string, name: string, maxBytes: number): Promise<Buffer> {
  const file = await open(join(root, name), constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: unknown) => {
    if (code(error) === "ENOENT") throw new BeigeError("not_found", `plugin folder ${root} has no ${name}`);
    throw invalid(`${name} of plugin folder ${root} cannot be read (${code(error)})`);
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw invalid(`${name} of plugin folder ${root} is not a file`);
    if (stats.size > maxBytes) throw invalid(`${name} of plugin folder ${root} is larger than ${maxBytes} bytes`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

type Bag = Readonly<Record<string, unknown>>;
const isBag = (value: unknown): value is Bag => typeof value === "object" && value !== null && !Array.isArray(value);
const inside = (path: string): boolean => path !== "" && !path.startsWith("/") && !path.includes("\0") && !path.split("/").includes("..");

function texts(value: unknown, field: string, fits: (text: string) => boolean): readonly string[] {
  if (value === undefined) return [];
  const good = Array.isArray(value) && value.length <= LIST_MAX && value.every((item) => typeof item === "string" && fits(item));
  if (!good) throw invalid(`plugin.json: ${field} must be a list of at most ${LIST_MAX} valid names`);
  return [...new Set(value as string[])];
}

/** Throws `invalid`, naming the field. */
export function parseManifest(text: string): PluginManifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(`plugin.json is not JSON: ${messageOf(error)}`);
  }
  if (!isBag(value)) throw invalid("plugin.json must be an object");
  const { name, description, version, main, provides } = value;
  if (typeof name !== "string" || !PLUGIN_NAME.test(name)) throw invalid("plugin.json: name must be a lower-case word");
  if (typeof description !== "string" || description === "") throw invalid("plugin.json: description must be a sentence");
  if (version !== undefined && typeof version !== "string") throw invalid("plugin.json: version must be text");
  if (main !== undefined && (typeof main !== "string" || !inside(main)))
    throw invalid("plugin.json: main must be a path inside the folder");
  if (!isBag(provides)) throw invalid("plugin.json: provides must be an object with tools or hooks");
  const tools = texts(provides["tools"], "provides.tools", (tool) => TOOL_NAME.test(tool) && !isCoreTool(tool));
  const hooks = texts(provides["hooks"], "provides.hooks", (hook) => (HOOKS as readonly string[]).includes(hook));
  const commands = texts(value["commands"], "commands", (command) => command.length <= 64);
  const files = value["files"] === undefined ? undefined : texts(value["files"], "files", inside);
  return {
    name,
    description: description.slice(0, 1024),
    ...(version === undefined ? {} : { version }),
    ...(main === undefined ? {} : { main }),
    commands,
    provides: { tools, hooks },
    ...(files === undefined ? {} : { files }),
  };
}

/** Every file below the root, in order; dependencies and dot folders are not code of this plugin. */
async function* walk(root: string, folder: string): AsyncGenerator<string> {
  const names = (await readdir(join(root, folder))).toSorted();
  for (const name of names) {
    if (name === "node_modules" || name.startsWith(".")) continue;
    const path = folder === "" ? name : `${folder}/${name}`;
    const stats = await lstat(join(root, path));
    if (stats.isSymbolicLink()) {
      const target = await realpath(join(root, path)).catch(() => undefined);
      if (target === undefined || !within(target, root)) throw invalid(`${path} of plugin folder ${root} is a link that leads out of it`);
      continue;
    }
    if (stats.isDirectory()) yield* walk(root, path);
    else if (stats.isFile()) yield path;
  }
}

async function hashCode(root: string): Promise<string> {
  const hash = createHash("sha256");
  let count = 0;
  let bytes = 0;
  for await (const path of walk(root, "")) {
    const data = await readBelow(root, path, BYTES_MAX);
    count += 1;
    bytes += data.length;
    if (count > FILES_MAX || bytes > BYTES_MAX)
      throw invalid(`plugin folder ${root} holds more than ${FILES_MAX} files or ${BYTES_MAX} bytes`);
    hash.update(`${path}\0${data.length}\0`).update(data);
  }
  return hash.digest("hex");
}

export async function lookAtPlugin(
  source: PluginSource,
  origin: string | undefined,
  roots: Roots,
): Promise<{ readonly root: string; readonly manifest: PluginManifest; readonly codeHash: string }> {
  const root = await findRoot(source, origin, roots);
  const manifest = parseManifest((await readBelow(root, "plugin.json", MANIFEST_BYTES_MAX)).toString("utf8"));
  return { root, manifest, codeHash: await hashCode(root) };
}

/** Absolute path of the entry point, real and below the root. */
export async function entryPoint(root: string, manifest: PluginManifest): Promise<string> {
  const names = manifest.main === undefined ? ["index.js", "index.ts"] : [manifest.main];
  for (const name of names) {
    const real = await realpath(join(root, name)).catch(() => undefined);
    if (real === undefined) continue;
    if (!within(real, await realpath(root))) throw invalid(`entry point ${name} of plugin ${manifest.name} leads out of its folder`);
    return real;
  }
  throw new BeigeError("not_found", `entry point ${names.join(" or ")} of plugin ${manifest.name} does not exist`, { hint: `ls ${root}` });
}
