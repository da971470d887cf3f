// What clients of Kubernetes ask for that is not here, and what to use for it.
import { Refusal } from "../status.ts";

const INSTEAD: Readonly<Record<string, string>> = {
  secrets: "beige keeps no Secret objects: beige secret set NAME --host HOST, then {secret: NAME} in a Provider",
  configmaps: "beige has no ConfigMaps: settings are fields of the kinds, texts come from files of the manifest",
  deployments: "an Agent is its own deployment: kubectl apply -f AGENT.yaml",
  services: "sandboxes serve no ports",
  // What clients ask for before they send a kind that has no schema.
  customresourcedefinitions:
    "the kinds are those of kubectl api-resources; no Secrets (beige secret set NAME --host HOST) and no ConfigMaps are among them",
  nodes: "there is one machine: beige doctor looks at it",
  serviceaccounts: "there is one token: beige kubeconfig",
  cronjobs: "use a Schedule: kubectl explain schedules",
};

/** Whether something else is known for what this path asks for. */
export const hasInstead = (path: string): boolean => insteadOf(path) !== undefined;

function insteadOf(path: string): string | undefined {
  const parts = path.split("/");
  const plural = Object.keys(INSTEAD).find((name) => parts.includes(name));
  return plural === undefined ? undefined : INSTEAD[plural];
}

export const absent = (path: string): Refusal =>
  new Refusal(
    404,
    "NotFound",
    `beige does not serve ${JSON.stringify(path)}`,
    insteadOf(path) ?? "kubectl api-resources lists what is served",
  );
