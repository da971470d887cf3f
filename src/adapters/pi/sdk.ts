// The SDK's session machinery, closed: no discovery, no files but the session's own, no network, no retries, no other tools.
import {
  createAgentSession,
  createExtensionRuntime,
  CURRENT_SESSION_VERSION,
  ModelRuntime,
  SessionManager,
  SettingsManager,
  type AgentSession,
  type ToolDefinition,
} from "@mariozechner/pi-coding-agent";
import { createAssistantMessageEventStream, InMemoryCredentialStore, InMemoryModelsStore, type Model } from "@earendil-works/pi-ai";
import type { SessionOptions, SessionTool } from "../../core/chat.ts";
import { resultContent } from "../../core/images.ts";
import { fitting, type Room, roomOf } from "./room.ts";

export const SESSION_VERSION = CURRENT_SESSION_VERSION;
export const PROVIDER = "beige";
export const MODEL = "main";
const API = "beige-route";
const NO_PRICE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

/** Only constants may reach `registerProvider`: it runs a key that starts with `!` as a host command and expands `$NAME`. */
async function createRuntime(): Promise<ModelRuntime> {
  const runtime = await ModelRuntime.create({
    credentials: new InMemoryCredentialStore(),
    modelsPath: null,
    modelsStore: new InMemoryModelsStore(),
    refreshOnCreate: false,
  });
  const model = {
    id: MODEL,
    name: MODEL,
    reasoning: true,
    input: ["text" as const],
    cost: NO_PRICE,
    contextWindow: 128_000,
    maxTokens: 8192,
  };
  runtime.registerProvider(PROVIDER, {
    baseUrl: "http://unused.invalid",
    apiKey: "unused",
    api: API,
    // Every session has a stream of its own; one that asks here has lost it.
    streamSimple: () => {
      throw new Error("a session without a stream of its own");
    },
    models: [model],
  });
  return runtime;
}

let shared: Promise<ModelRuntime> | undefined;
const runtimeOnce = (): Promise<ModelRuntime> => (shared ??= createRuntime());

/** What all sessions share. */
export async function prepare(): Promise<void> {
  await runtimeOnce();
}

/** Tokens of the newest messages that a summary leaves as they are. */
const KEEP_TOKENS = 20_000;

const settings = ({ model, compactAt }: SessionOptions): SettingsManager =>
  SettingsManager.inMemory({
    retry: { enabled: false, maxRetries: 0, provider: { maxRetries: 0 } },
    // The SDK counts from the other end: how much of the window is kept free.
    compaction: {
      enabled: true,
      reserveTokens: Math.max(0, model.contextWindow - compactAt),
      keepRecentTokens: Math.min(KEEP_TOKENS, Math.floor(compactAt / 4)),
    },
    // What a person sent is sent as it is.
    images: { autoResize: false },
    enableInstallTelemetry: false,
  });

/** The model's window is smaller than was thought: the next summary leaves a quarter of what was too much. */
export const keepLess = (session: AgentSession, tokens: number): void =>
  session.settingsManager.applyOverrides({ compaction: { keepRecentTokens: Math.min(KEEP_TOKENS, Math.floor(tokens / 4)) } });

type Loader = NonNullable<NonNullable<Parameters<typeof createAgentSession>[0]>["resourceLoader"]>;

const loader = (systemPrompt: string): Loader => ({
  getExtensions: () => ({ extensions: [], errors: [], runtime: createExtensionRuntime() }),
  getSkills: () => ({ skills: [], diagnostics: [] }),
  getPrompts: () => ({ prompts: [], diagnostics: [] }),
  getThemes: () => ({ themes: [], diagnostics: [] }),
  getAgentsFiles: () => ({ agentsFiles: [] }),
  getSystemPrompt: () => systemPrompt,
  getSystemPromptSource: () => undefined,
  getAppendSystemPrompt: () => [],
  getAppendSystemPromptSources: () => [],
  extendResources: () => undefined,
  reload: () => Promise.resolve(),
});

/** A failed tool is said by throwing: that is how the SDK marks its result as an error. */
const toolOf = (tool: SessionTool, input: readonly string[], room: Room): ToolDefinition => ({
  name: tool.name,
  label: tool.name,
  description: tool.description,
  parameters: tool.parameters,
  executionMode: "sequential",
  async execute(id, params, signal) {
    const answer = await tool.run(id, params as Readonly<Record<string, unknown>>, signal ?? new AbortController().signal);
    if (answer.failed) throw new Error(answer.text === "" ? "failed" : answer.text);
    return { content: resultContent(input.includes("image") ? fitting(answer, room) : answer, input), details: {} };
  },
});

const modelOf = (options: SessionOptions): Model<string> => ({
  id: MODEL,
  name: MODEL,
  api: API,
  provider: PROVIDER,
  baseUrl: "http://unused.invalid",
  reasoning: true,
  input: [...options.model.input],
  cost: NO_PRICE,
  contextWindow: options.model.contextWindow,
  maxTokens: options.model.maxTokens,
});

export const openManager = (file: string, options: SessionOptions): SessionManager =>
  SessionManager.open(file, options.folder, options.cwd);

export async function createSdkSession(options: SessionOptions, manager: SessionManager): Promise<AgentSession> {
  const { session } = await createAgentSession({
    cwd: options.cwd,
    agentDir: "/nonexistent",
    modelRuntime: await runtimeOnce(),
    model: modelOf(options),
    thinkingLevel: options.thinking,
    // An allowlist: with anything else the host's own shell stays within the model's reach.
    tools: options.tools.map((tool) => tool.name),
    customTools: options.tools.map((tool) => toolOf(tool, options.model.input, roomOf(manager))),
    resourceLoader: loader(options.systemPrompt),
    sessionManager: manager,
    settingsManager: settings(options),
  });
  return session;
}

export const eventStream = createAssistantMessageEventStream;
