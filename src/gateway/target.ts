// Where an attempt goes: address and key of a provider, and its refusals without either.
import { baseUrlOf } from "../core/address.ts";
import { BeigeError } from "../core/errors.ts";
import { hostOf } from "../core/hostpolicy.ts";
import { looksSecret } from "../core/secretref.ts";
import { withoutPart } from "./veil.ts";
import type { ChatFailure, ChatTarget } from "../core/chat.ts";
import type { Provider } from "../core/resource.ts";
import type { Secrets } from "../core/world.ts";
import type { ModelFacts } from "../../schemas/types.ts";

const MESSAGE_MAX = 2000;

/** A key goes to the host that the address names, and to no unknown place. */
async function keyOf(secrets: Secrets, provider: Provider, baseUrl: string): Promise<string | undefined> {
  if (provider.spec.apiKey === undefined) return undefined;
  const host = hostOf(baseUrl);
  if (host === undefined) throw new BeigeError("invalid", `provider '${provider.metadata.name}' has an address without a host`);
  return await secrets.resolve(provider.spec.apiKey, host);
}

export async function targetOf(secrets: Secrets, provider: Provider, model: ModelFacts): Promise<ChatTarget> {
  const { spec } = provider;
  const { name } = provider.metadata;
  const basic = { provider: name, api: spec.api, model, timeoutMs: spec.timeoutSeconds * 1000 };
  if (spec.api === "echo") return { ...basic, ...(spec.echo === undefined ? {} : { echo: spec.echo }) };
  const baseUrl = baseUrlOf(spec);
  if (baseUrl === undefined)
    throw new BeigeError("invalid", `provider '${name}' has no baseUrl`, { hint: "set spec.baseUrl of the Provider" });
  const apiKey = await keyOf(secrets, provider, baseUrl);
  return { ...basic, baseUrl, ...(apiKey === undefined ? {} : { apiKey }) };
}

/** Parts of an address that only those may know who may use it. */
const hiddenParts = ({ baseUrl }: ChatTarget): readonly string[] =>
  (URL.parse(baseUrl ?? "")?.pathname ?? "").split("/").filter(looksSecret);

/** Providers repeat keys and addresses in their refusals: what goes on from here holds none. */
export function tidy(failure: ChatFailure, target: ChatTarget, secrets: Secrets): ChatFailure {
  const key = target.apiKey;
  const hidden = [...(key === undefined || key.length < 4 ? [] : [key]), ...hiddenParts(target)];
  const message = hidden.reduce(withoutPart, secrets.redact(failure.message));
  return { ...failure, message: message.length > MESSAGE_MAX ? `${message.slice(0, MESSAGE_MAX)}…` : message };
}
