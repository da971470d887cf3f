// Provider: where LLM requests go. Nothing is made for it; its plan only says whether it can be used.
import providerSchema from "../../schemas/provider.json" with { type: "json" };
import { defineKind } from "../../src/core/kind.ts";
import type { Provider } from "../../src/core/resource.ts";
import { providerColumns } from "./columns.ts";
import { actProvider, observeProvider } from "./observe.ts";
import { checkProvider, planProvider, type ProviderAction, type ProviderFacts } from "./plan.ts";

export const providerKind = defineKind<Provider, ProviderFacts, ProviderAction>({
  kind: "Provider",
  plural: "providers",
  short: ["pr"],
  scope: "Cluster",
  schema: providerSchema,
  columns: providerColumns,
  needs: () => [],
  check: checkProvider,
  // What the gateway remembers of a provider is found through the object alone.
  names: () => Promise.resolve([]),
  observe: observeProvider,
  plan: planProvider,
  act: actProvider,
});
