// What a container that an earlier beige made has not, in words, and how it gets that. Pure.
import type { Agent } from "../../src/core/resource.ts";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import { GATEWAY_ENV, INSIDE, type Box } from "./box.ts";

/** What each folder of the gateway's own is there for. */
const FOLDERS: Readonly<Record<string, string>> = {
  [INSIDE.socket]: "the supervisor, the socket and the way out",
  [INSIDE.launchers]: "launchers",
  [INSIDE.packages]: "documentation of plugins",
};

/** Only what the gateway puts in itself: the rest is compared field by field, and replaced. */
export function lacksOf(box: Box, seen: SandboxSpec): readonly string[] {
  const there = new Set(seen.mounts.map(({ target }) => target));
  const folders = Object.entries(FOLDERS).flatMap(([target, what]) =>
    there.has(target) || !box.mounts.some((one) => one.target === target) ? [] : [`${target} (${what})`],
  );
  const own: readonly string[] = GATEWAY_ENV;
  const variables = Object.keys(box.env).filter((name) => own.includes(name) && seen.env[name] === undefined);
  return [...folders, ...variables, ...(seen.hardening ?? []).map((one) => `hardening as it is now (${one})`)];
}

/** As a reason not to be content with it; undefined where it lacks nothing. */
export function outdated(agent: Agent, box: Box, seen: SandboxSpec): { readonly reason: string; readonly message: string } | undefined {
  const lacks = lacksOf(box, seen);
  if (lacks.length === 0) return undefined;
  const { namespace, name } = agent.metadata;
  const where = namespace === "default" ? "" : ` -n ${namespace}`;
  const message = `the container was made by an earlier beige and lacks ${lacks.join(", ")}; beige rollout restart agent/${name}${where} makes it anew`;
  return { reason: "Outdated", message };
}
