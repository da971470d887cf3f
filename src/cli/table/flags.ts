// Flags that several verbs share.
import type { Flag } from "../flags.ts";

export const output = (...choices: readonly string[]): Flag => ({
  name: "output",
  short: "o",
  value: "FORM",
  choices,
  summary: choices.map((each) => (each.endsWith("=") ? `${each}TEMPLATE` : each)).join(", "),
});
export const filename: Flag = {
  name: "filename",
  short: "f",
  value: "FILE",
  many: true,
  summary: "manifest: file, folder, 'glob' or - (standard input)",
};
export const recursive: Flag = { name: "recursive", short: "R", summary: "look into the folders of a folder" };
export const namespace: Flag = { name: "namespace", short: "n", value: "NS", summary: "namespace (default)" };
export const set: Flag = { name: "set", value: "NAME", summary: "name of this set of manifests (default)" };
export const prune: Flag = { name: "prune", summary: "also delete what has left the set (guarded)" };
export const maxDeletes: Flag = { name: "max-deletes", value: "N|P%", summary: "how much of the set --prune may delete (30%)" };
export const allowEmpty: Flag = { name: "allow-empty", summary: "--prune may delete all of the set" };
export const forceConflicts: Flag = { name: "force-conflicts", summary: "take fields that another manager owns" };
export const yes: Flag = { name: "yes", short: "y", summary: "do not ask" };
export const timeout = (usual: string, what: string): Flag => ({ name: "timeout", value: "TIME", summary: `${what} (${usual})` });
export const watch: Flag = { name: "watch", short: "w", summary: "go on with what changes" };
export const follow: Flag = { name: "follow", short: "f", summary: "go on with what is added" };
export const chain: Flag = {
  name: "chain",
  value: "NAME",
  choices: ["audit", "control", "access"],
  summary: "audit: calls; control: what was changed; access: requests",
};
export const schedules: Flag = { name: "schedules", summary: "let schedules fire" };
export const listen: Flag = { name: "listen", value: "ADDR", summary: "HOST:PORT of the API, or none (127.0.0.1:7433)" };

export const kubeListen: Flag = { name: "kube-listen", value: "PORT", summary: "also a port with TLS for kubectl, such as 7443 (none)" };

export function logFlags(): readonly Flag[] {
  return [
    follow,
    { name: "tail", value: "N", summary: "last N lines (200)" },
    { name: "since", value: "TIME", summary: "not older than 10m, 2h, ..." },
    { name: "level", value: "LEVEL", choices: ["debug", "info", "warn", "error"], summary: "this level and above" },
    output("text", "json"),
  ];
}
