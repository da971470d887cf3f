// Where the known provider APIs are, when the manifest does not say.
import type { ProviderSpec } from "../../schemas/types.ts";

const ADDRESS: Readonly<Record<ProviderSpec["api"], string | undefined>> = {
  echo: undefined,
  "openai-completions": "https://api.openai.com/v1",
  "openai-responses": "https://api.openai.com/v1",
  "anthropic-messages": "https://api.anthropic.com",
  "google-generative-ai": "https://generativelanguage.googleapis.com/v1beta",
};

/** Where a provider's requests go; none for the built-in echo. */
export const baseUrlOf = (spec: ProviderSpec): string | undefined =>
  spec.api === "echo" ? undefined : (spec.baseUrl ?? ADDRESS[spec.api]);
