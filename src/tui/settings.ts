// The SDK's settings for this terminal, in memory: nothing retries but the gateway, nothing reports, and no file is read or written.
import { SettingsManager } from "@mariozechner/pi-coding-agent";
import type { SessionLoop } from "../core/session.ts";

/** Tokens of the newest messages that a summary leaves as they are. */
const KEEP_TOKENS = 20_000;

export const settingsOf = ({ compactAt, models }: SessionLoop): SettingsManager =>
  SettingsManager.inMemory({
    retry: { enabled: false, maxRetries: 0, provider: { maxRetries: 0 } },
    // The SDK counts from the other end: how much of the window is kept free.
    compaction: {
      enabled: true,
      reserveTokens: Math.max(0, (models[0]?.facts.contextWindow ?? 0) - compactAt),
      keepRecentTokens: Math.min(KEEP_TOKENS, Math.floor(compactAt / 4)),
    },
    enableInstallTelemetry: false,
    enableAnalytics: false,
    quietStartup: true,
    cacheWarming: "off",
  });
