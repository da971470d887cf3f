// The models that may answer for an agent, in order, with the facts that are known of each.
import { BeigeError } from "../core/errors.ts";
import { nsName, type Agent, type Provider } from "../core/resource.ts";
import type { Directory } from "../core/world.ts";
import type { ChatOptions } from "../core/chat.ts";
import type { ModelName, WireApi, WireRequest } from "../core/road.ts";
import type { ModelFacts } from "../../schemas/types.ts";

export type { ModelName } from "../core/road.ts";

export interface Candidate {
  readonly provider: Provider;
  readonly model: ModelFacts;
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
export function candidatesOf(directory: Directory, agent: Agent, override: ModelName | undefined): readonly Candidate[] {
  const names = namesOf(agent, override);
  const found = names.flatMap((name) => {
    const provider = directory.provider(name.provider);
    return provider === undefined ? [] : [{ provider, model: factsOf(provider, name.id) }];
  });
  if (found.length > 0) return found;
  throw noProvider(names[0]?.provider ?? "");
}

const noProvider = (name: string): BeigeError =>
  new BeigeError("not_found", `provider '${name}' does not exist`, { hint: "beige get providers" });

/** The only candidate of a request without an agent. */
export function oneModel(directory: Directory, name: ModelName): Candidate {
  const provider = directory.provider(name.provider);
  if (provider === undefined) throw noProvider(name.provider);
  return { provider, model: factsOf(provider, name.id) };
}

export const clamped = (options: ChatOptions, model: ModelFacts): ChatOptions => ({
  ...options,
  thinking: model.reasoning ? options.thinking : "off",
  maxTokens: Math.min(options.maxTokens ?? model.maxTokens, model.maxTokens),
});

/** Where each format says how long the answer may get. */
const LENGTHS: Readonly<Record<WireApi, readonly string[]>> = {
  "openai-completions": ["max_completion_tokens", "max_tokens"],
  "openai-responses": ["max_output_tokens"],
  "anthropic-messages": ["max_tokens"],
};

/** Some providers read a number in quotes too. */
const countIn = (body: WireRequest["body"], field: string): number | undefined => {
  const said = body[field];
  const value = typeof said === "string" ? Number(said) : said;
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : undefined;
};

/** The body with no longer answer than a listed model gives; of one that is not listed nobody knows. */
export function cappedWire(wire: WireRequest, { provider, model }: Candidate): WireRequest {
  if (!provider.spec.models.includes(model)) return wire;
  const over = LENGTHS[wire.api].filter((field) => (countIn(wire.body, field) ?? 0) > model.maxTokens);
  if (over.length === 0) return wire;
  return { ...wire, body: { ...wire.body, ...Object.fromEntries(over.map((field) => [field, model.maxTokens])) } };
}

/** How many answers are made, whether or not all are shown. */
const timesOf = (body: WireRequest["body"]): number => Math.max(1, countIn(body, "n") ?? 1, countIn(body, "best_of") ?? 1);

/** The most tokens that may come for a body: as many as it asks for, as often as it asks. */
export function longestAnswer(wire: WireRequest, model: ModelFacts): number {
  const asked = LENGTHS[wire.api].flatMap((field) => countIn(wire.body, field) ?? []);
  return (asked.length === 0 ? model.maxTokens : Math.max(...asked)) * timesOf(wire.body);
}
