// The agent's models as the SDK knows them: one provider, whose requests all go to the gateway, and no other.
import { ModelRuntime } from "@mariozechner/pi-coding-agent";
import { InMemoryCredentialStore, InMemoryModelsStore, type Model } from "@earendil-works/pi-ai";
import type { SessionLoop } from "../core/session.ts";
import type { roadStream } from "./stream.ts";

const PROVIDER = "beige";
const NO_PRICE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

export const nameOf = ({ provider, facts }: SessionLoop["models"][number]): string => `${provider}/${facts.id}`;

/** Only constants may reach `registerProvider` as key or address: it runs a key that starts with `!` as a command and expands `$NAME`. */
export async function modelsOf(loop: SessionLoop, stream: ReturnType<typeof roadStream>): Promise<ModelRuntime> {
  const runtime = await ModelRuntime.create({
    credentials: new InMemoryCredentialStore(),
    modelsPath: null,
    modelsStore: new InMemoryModelsStore(),
    refreshOnCreate: false,
  });
  runtime.registerProvider(PROVIDER, {
    baseUrl: "http://unused.invalid",
    apiKey: "unused",
    api: "beige-road",
    streamSimple: stream as never,
    models: loop.models.map((model) => ({
      id: nameOf(model),
      name: nameOf(model),
      reasoning: model.facts.reasoning,
      input: [...model.facts.input],
      // The answer says what it cost.
      cost: NO_PRICE,
      contextWindow: model.facts.contextWindow,
      maxTokens: model.facts.maxTokens,
    })),
  });
  return runtime;
}

/** The one that the session's settings name; else the agent's first. */
export function modelIn(runtime: ModelRuntime, loop: SessionLoop): Model<string> | undefined {
  const { provider, id } = loop.settings.model;
  const names = [`${provider}/${id}`, ...loop.models.map(nameOf)];
  return names.map((name) => runtime.getModel(PROVIDER, name)).find((model) => model !== undefined);
}
