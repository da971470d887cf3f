// host.yaml as the command line changes it: checked before and after, written whole, the older one kept when its comments would be lost.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { HostPolicy, HostSecret } from "../../schemas/types.ts";
import { BeigeError } from "../core/errors.ts";
import { policyOf, yamlText, yamlValue } from "./offline.ts";
import { writePrivate } from "./private.ts";

const HEAD = "# What the operator of this machine allows: secrets and the hosts that each may be sent to, and roots of host folders.\n";

const pathOf = (home: string): string => join(home, "host.yaml");

function textOf(home: string): string {
  try {
    return readFileSync(pathOf(home), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw new BeigeError("unavailable", `cannot read ${pathOf(home)}: ${(error as Error).message}`, { cause: error });
  }
}

export function readHost(home: string): HostPolicy {
  const { policy, problems } = policyOf(textOf(home), pathOf(home));
  if (policy === undefined || problems.length > 0)
    throw new BeigeError("invalid", `${pathOf(home)} is not valid`, { problems, hint: "mend it by hand first" });
  return policy;
}

export function changeHost(home: string, change: (secrets: readonly HostSecret[]) => readonly HostSecret[]): void {
  const before = textOf(home);
  const policy = readHost(home);
  // All else as it was written: without the defaults, and whatever a later version adds.
  const read = yamlValue(before);
  const next = { ...("value" in read && (read.value as object)), secrets: change(policy.secrets) };
  // Comments at the top stay; others cannot.
  const top = /^(?:#[^\n]*\n|\s*\n)*/.exec(before)?.[0] ?? "";
  const text = `${before === "" ? HEAD : top}${yamlText(next)}`;
  const after = policyOf(text, pathOf(home));
  if (after.problems.length > 0)
    throw new BeigeError("invalid", "the new host.yaml would not be valid: nothing was changed", { problems: after.problems });
  mkdirSync(home, { recursive: true, mode: 0o700 });
  if (/^[^\n]*#/m.test(before.slice(top.length))) copyFileSync(pathOf(home), `${pathOf(home)}.bak`);
  writePrivate(pathOf(home), text);
}
