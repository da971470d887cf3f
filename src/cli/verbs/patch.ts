// beige patch: changes a part of an object by a merge patch or a JSON patch, written as JSON or as YAML.
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import type { Resource } from "../../core/resource.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { reasonOf } from "../manifests.ts";
import { pathOf, refOfTarget } from "../names.ts";
import { namedTargets, untouched, write } from "../objects.ts";
import { nameOf } from "../render/values.ts";

const MAX_BYTES = 4 * 1024 * 1024;
const TYPES: Readonly<Record<string, string>> = { merge: "application/merge-patch+json", json: "application/json-patch+json" };

async function textOf(context: Context, input: Input): Promise<string> {
  const given = word(input, "patch");
  const file = word(input, "patch-file");
  if ((given === undefined) === (file === undefined))
    throw new BeigeError("invalid", "give -p PATCH or --patch-file FILE", {
      hint: `beige patch agent/NAME -p '{"spec":{"suspend":true}}'`,
    });
  if (given !== undefined) return given;
  if (file === "-") return context.stdin(MAX_BYTES);
  const path = resolve(context.cwd, file ?? "");
  try {
    if (statSync(path).size > MAX_BYTES) throw new BeigeError("invalid", `${file ?? ""} is longer than 4 MiB`);
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof BeigeError) throw error;
    throw new BeigeError("invalid", `cannot read ${file ?? ""}: ${reasonOf(error)}`, { cause: error });
  }
}

/** JSON where it is JSON: only what is not loads the reader of YAML, which is as strict as it is with manifests. */
async function valueOf(text: string): Promise<unknown> {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    const { yamlValue } = await import("../offline.ts");
    const read = yamlValue(text);
    if ("value" in read) return read.value;
    throw new BeigeError("invalid", `the patch is neither JSON nor YAML: ${read.message}`, { hint: `-p '{"spec":{"suspend":true}}'` });
  }
}

async function parsed(text: string, type: string): Promise<unknown> {
  const body = await valueOf(text);
  if (type === "json" && !Array.isArray(body))
    throw new BeigeError("invalid", "a JSON patch is a list of operations", {
      hint: `--type json -p '[{"op":"replace","path":"/spec/suspend","value":true}]'`,
    });
  if (type === "merge" && (typeof body !== "object" || body === null || Array.isArray(body)))
    throw new BeigeError("invalid", "a merge patch is an object", { hint: "--type json for a list of operations" });
  return body;
}

export const run: Run = async (context, input) => {
  const targets = await namedTargets(context, input.args, { input, verb: "patch" });
  const type = word(input, "type") ?? "merge";
  const body = await parsed(await textOf(context, input), type);
  const dryRun = on(input, "dry-run");
  for (const target of targets) {
    const before = await context.client.get<Resource>({ path: pathOf(target) });
    const after = await write(context, target, {
      method: "PATCH",
      manager: "patch",
      body,
      type: TYPES[type] ?? "",
      dryRun,
      force: on(input, "force-conflicts"),
    });
    const same = dryRun
      ? JSON.stringify([before.spec, before.metadata]) === JSON.stringify([after.spec, after.metadata])
      : untouched(before, after);
    await context.out.write(`${nameOf(refOfTarget(target))} patched${same ? " (no change)" : ""}${dryRun ? " (dry run)" : ""}\n`);
  }
  return 0;
};
