// The wanted objects by name, for every request of the gateway: read from memory, copied nowhere.
import type { Agent, Plugin, Provider, Resource, Schedule } from "../../core/resource.ts";
import type { Directory } from "../../core/world.ts";
import type { Objects } from "./objects.ts";

export function createDirectory(objects: Objects): Directory {
  const get = <R extends Resource>(kind: R["kind"], namespace: string, name: string): R | undefined =>
    objects.get({ kind, namespace, name }) as R | undefined;
  return {
    agent: (namespace, name) => get<Agent>("Agent", namespace, name),
    agentByUid(uid) {
      const found = objects.byUid(uid);
      return found?.kind === "Agent" ? (found as Agent) : undefined;
    },
    agents: () => objects.list("Agent") as readonly Agent[],
    provider: (name) => get<Provider>("Provider", "", name),
    plugin: (name) => get<Plugin>("Plugin", "", name),
    plugins: () => objects.list("Plugin") as readonly Plugin[],
    schedule: (namespace, name) => get<Schedule>("Schedule", namespace, name),
  };
}
