// Where things lie below BEIGE_HOME. Pure: strings only.
import type { AgentId } from "./call.ts";

/** The longest path that a unix socket takes, in bytes, without its final NUL. */
export const SOCKET_PATH_MAX = 107;

/** First ten hex digits of an object's uid: short enough for a socket path. */
export const uid10 = (uid: string): string => uid.replaceAll("-", "").slice(0, 10);

/** Mounted read-only at /beige. */
export const socketFolder = (home: string, uid: string): string => `${home}/run/${uid10(uid)}`;
export const socketPath = (home: string, uid: string): string => `${socketFolder(home, uid)}/gateway.sock`;

/** The way out of a sandbox, in the same folder. */
export const egressPath = (home: string, uid: string): string => `${socketFolder(home, uid)}/egress.sock`;

/** Everything of an agent that is not its socket: NS.NAME, so that equal names in two namespaces do not meet. */
export const agentFolder = (home: string, agent: Pick<AgentId, "namespace" | "name">): string =>
  `${home}/agents/${agent.namespace}.${agent.name}`;
export const workspaceFolder = (home: string, agent: Pick<AgentId, "namespace" | "name">): string =>
  `${agentFolder(home, agent)}/workspace`;
/** Mounted read-only at /tools/bin. */
export const launcherFolder = (home: string, agent: Pick<AgentId, "namespace" | "name">): string => `${agentFolder(home, agent)}/tools/bin`;
/** Mounted read-only at /tools/packages. */
export const packageFolder = (home: string, agent: Pick<AgentId, "namespace" | "name">): string =>
  `${agentFolder(home, agent)}/tools/packages`;
export const sessionFolder = (home: string, agent: Pick<AgentId, "namespace" | "name">): string =>
  `${home}/sessions/${agent.namespace}.${agent.name}`;

/** Absolute form of a manifest's path; undefined when it is relative and there is no folder to start from. */
export function resolvePath(path: string, origin: string | undefined): string | undefined {
  const whole = path.startsWith("/") ? path : origin === undefined ? undefined : `${origin}/${path}`;
  if (whole === undefined) return undefined;
  const parts: string[] = [];
  for (const part of whole.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** Whether one path is the other, or lies below it. Both absolute and resolved. */
export const overlaps = (a: string, b: string): boolean =>
  a === b || a.startsWith(b === "/" ? "/" : `${b}/`) || b.startsWith(a === "/" ? "/" : `${a}/`);
/** Whether `path` is `root` or lies below it. */
export const within = (path: string, root: string): boolean => path === root || path.startsWith(root === "/" ? "/" : `${root}/`);
