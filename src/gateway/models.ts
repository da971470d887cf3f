// The models that may answer for an agent, in order, with the facts that are known of each.
import { BeigeError } from "../core/errors.ts";
import { nsName, type Agent, type Provider } from "../core/resource.ts";
import type { Directory } from "../core/world.ts";
import type { ModelFacts } from "../../schemas/types.ts";

export interface ModelName {
  readonly provider: string;
  readonly id: string;
}

/** What is assumed of a model that its Provider does not list. */
export const factsOf = (provider: Provider, id: string): ModelFacts =>
  provider.spec.models.find((model) => model.id === id) ?? {
    id,
    contextWindow: 128_000,
    maxTokens: 8192,
    input: ["text"],
    reasoning: false,
  };

const same = (a: ModelName, b: ModelName): boolean => a.provider === b.provider && a.id === b.id;

/** The agent's own list without repetitions; an override must be in it and goes first. */
export function namesOf(agent: Agent, override: ModelName | undefined): readonly ModelName[] {
  const { model, fallbacks } = agent.spec;
  const listed: readonly ModelName[] = [{ provider: model.provider, id: model.id }, ...fallbacks];
  if (override !== undefined && !listed.some((name) => same(name, override))) {
    const who = nsName(agent.metadata.namespace, agent.metadata.name);
    throw new BeigeError("denied", `model '${override.provider}/${override.id}' is not in the list of agent '${who}'`, {
      hint: "add it to spec.fallbacks of the Agent",
    });
  }
  const ordered = override === undefined ? listed : [override, ...listed];
  return ordered.filter((name, index) => ordered.findIndex((other) => same(name, other)) === index);
}

/** A fallback whose Provider is gone is passed over; an agent with none left is told. */
export function candidatesOf(
  directory: Directory,
  agent: Agent,
  override: ModelName | undefined,
): readonly { readonly provider: Provider; readonly model: ModelFacts }[] {
  const names = namesOf(agent, override);
  const found = names.flatMap((name) => {
    const provider = directory.provider(name.provider);
    return provider === undefined ? [] : [{ provider, model: factsOf(provider, name.id) }];
  });
  if (found.length > 0) return found;
  throw new BeigeError("not_found", `provider '${names[0]?.provider ?? ""}' does not exist`, { hint: "beige get providers" });
}
