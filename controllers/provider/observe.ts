// Looks at a provider's key and at what its traffic told; forgets the latter with the object.
import { hostOf } from "../../src/core/hostpolicy.ts";
import type { Provider, Ref } from "../../src/core/resource.ts";
import type { World } from "../../src/core/world.ts";
import { baseUrlOf } from "../../src/core/address.ts";
import type { KeyCheck, ProviderAction, ProviderFacts } from "./plan.ts";

async function keyOf(w: World, provider: Provider): Promise<KeyCheck> {
  const { apiKey } = provider.spec;
  if (apiKey === undefined) return { ok: true };
  const address = baseUrlOf(provider.spec);
  const host = address === undefined ? undefined : hostOf(address);
  // A key that would be sent to an unknown place is sent nowhere.
  if (host === undefined)
    return { ok: false, reason: "AddressMissing", message: "nobody knows where the key would be sent", hint: "set spec.baseUrl" };
  return w.secrets.check(apiKey, host);
}

export async function observeProvider(w: World, ref: Ref, provider: Provider | undefined): Promise<ProviderFacts> {
  const key: KeyCheck = provider === undefined ? { ok: true } : await keyOf(w, provider);
  return { name: ref.name, key, seen: w.providers.seen(ref.name) };
}

export function actProvider(w: World, action: ProviderAction): Promise<void> {
  w.providers.forget(action.name);
  return Promise.resolve();
}
