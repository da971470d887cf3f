// What is wrong with an agent that its schema cannot see. Pure: neither secrets nor the world are asked.
import { entryProblems, parseEntry, targetText } from "../../src/core/egress.ts";
import type { Problem } from "../../src/core/errors.ts";
import type { View } from "../../src/core/kind.ts";
import { secretAllowed } from "../../src/core/hostpolicy.ts";
import { packageProblem } from "../../src/core/packages.ts";
import { socketPath, SOCKET_PATH_MAX } from "../../src/core/paths.ts";
import { refName, refOf, type Agent } from "../../src/core/resource.ts";
import { checkAdoption } from "./adopt.ts";
import { INSIDE } from "./box.ts";
import { checkFolders } from "./place.ts";
import { findTools } from "./tools.ts";

export function checkAgent(agent: Agent, view: View): readonly Problem[] {
  const object = refName(refOf(agent));
  const found = [
    ...tools(agent, view),
    ...paths(agent, view),
    ...targets(agent),
    ...env(agent),
    ...backend(agent),
    ...packages(agent),
    ...egress(agent, view),
    ...socket(agent, view),
    ...checkAdoption(agent, view),
  ];
  return [...found.map((problem) => ({ ...problem, object })), ...checkFolders(agent, view)];
}

function tools(agent: Agent, view: View): readonly Problem[] {
  return findTools(agent, view).flatMap(({ problem, hint, absent }, i) =>
    problem === undefined || absent === true
      ? []
      : [{ message: problem, path: `/spec/tools/${i}`, ...(hint === undefined ? {} : { hint }) }],
  );
}

function paths(agent: Agent, view: View): readonly Problem[] {
  if (view.origin(refOf(agent)) !== undefined) return [];
  const { workspace, sandbox } = agent.spec;
  const named = [
    ...(workspace.path === undefined ? [] : [{ value: workspace.path, path: "/spec/workspace/path" }]),
    ...sandbox.mounts.map((mount, i) => ({ value: mount.source, path: `/spec/sandbox/mounts/${i}/source` })),
  ];
  return named
    .filter(({ value }) => !value.startsWith("/"))
    .map(({ value, path }) => ({
      message: `path '${value}' is relative and has no manifest folder to start from`,
      path,
      hint: "write an absolute path",
    }));
}

/** Paths inside that are the gateway's or the engine's; /tmp itself is one too, what lies below it is not. */
const TAKEN = [INSIDE.socket, "/tools", INSIDE.workspace, "/proc", "/sys", "/dev"] as const;

function targetProblem(target: string, earlier: readonly string[]): string | undefined {
  if (target.split("/").includes("..")) return `mount target ${target} contains '..'`;
  const plain = target.replaceAll(/\/+/g, "/").replace(/\/$/, "");
  if (plain === "" || plain === "/tmp") return `mount target ${target} is taken`;
  const taken = TAKEN.find((root) => plain === root || plain.startsWith(`${root}/`));
  if (taken !== undefined) return `mount target ${target} lies in ${taken}, which is taken`;
  return earlier.includes(target) ? `mount target ${target} is there twice` : undefined;
}

function targets(agent: Agent): readonly Problem[] {
  const all = agent.spec.sandbox.mounts.map((mount) => mount.target);
  return all.flatMap((target, i) => {
    const problem = targetProblem(target, all.slice(0, i));
    return problem === undefined
      ? []
      : [{ message: problem, path: `/spec/sandbox/mounts/${i}/target`, hint: "choose another target, such as /data" }];
  });
}

/** Variables that no manifest sets. */
export const isGateways = (name: string): boolean => name === "PATH" || name.startsWith("BEIGE_");

function env(agent: Agent): readonly Problem[] {
  return Object.keys(agent.spec.sandbox.env)
    .filter(isGateways)
    .map((name) => ({
      message: `variable ${name} is set by the gateway`,
      path: `/spec/sandbox/env/${name}`,
      hint: name === "PATH" ? "set sandbox.path" : "choose another name",
    }));
}

/** What bubblewrap has not. */
function backend({ spec: { sandbox } }: Agent): readonly Problem[] {
  if (sandbox.backend !== "bwrap") return [];
  const lacks = (message: string, field: string, hint: string): Problem => ({
    message: `backend bwrap ${message}`,
    path: `/spec/sandbox/${field}`,
    hint,
  });
  return [
    ...(sandbox.network.mode === "open" ? [lacks("has no network of its own to open", "network/mode", "set mode: allowlist")] : []),
    ...(sandbox.profile === "packages" ? [lacks("has no writable root", "profile", "set profile: strict")] : []),
    ...((sandbox.packages ?? []).length > 0
      ? [
          lacks(
            "has no image that packages could be put into: its programs are the machine's own, or of a folder",
            "packages",
            "install them there, or remove packages",
          ),
        ]
      : []),
    ...(sandbox.runtime === undefined ? [] : [lacks("takes no runtime", "runtime", "remove runtime")]),
  ];
}

function packages({ spec }: Agent): readonly Problem[] {
  const all = spec.sandbox.packages ?? [];
  return all.flatMap((entry, i) => {
    const problem = packageProblem(entry, all.slice(0, i));
    return problem === undefined ? [] : [{ ...problem, path: `/spec/sandbox/packages/${i}` }];
  });
}

/** Entries that cannot be read, and secrets that host policy does not give to their host. */
function egress({ spec }: Agent, view: View): readonly Problem[] {
  const { network } = spec.sandbox;
  const at = (index: number): string => `/spec/sandbox/network/allow/${index}`;
  const unread = entryProblems(network).map(({ index, message, hint }) => ({ message, hint, path: at(index) }));
  const secrets = (network.allow ?? []).flatMap((entry, index) => {
    const rule = parseEntry(entry);
    if (typeof rule === "string" || rule.injection === undefined) return [];
    const { secret } = rule.injection;
    const verdicts = rule.ports.map((port) => secretAllowed(view.host, { secret }, targetText({ host: rule.host, port })));
    return verdicts.flatMap((one) => (one.ok ? [] : [{ message: one.message, hint: one.hint, path: `${at(index)}/secret` }])).slice(0, 1);
  });
  // Under none it is a list that waits; under open it would only look like a limit.
  const idle = network.mode === "open" && network.allow !== undefined;
  const mode = { message: "allow limits nothing in mode open", path: "/spec/sandbox/network/allow" };
  return [...unread, ...secrets, ...(idle ? [{ ...mode, hint: "set mode: allowlist, or remove allow" }] : [])];
}

function socket(agent: Agent, view: View): readonly Problem[] {
  const path = socketPath(view.home, agent.metadata.uid);
  const bytes = new TextEncoder().encode(path).length;
  if (bytes <= SOCKET_PATH_MAX) return [];
  return [{ message: `socket path ${path} has ${bytes} bytes, at most ${SOCKET_PATH_MAX} work`, hint: "set BEIGE_HOME to a shorter path" }];
}
