// The public plugin API: what a plugin imports, and all that it ever gets. Asynchronous, and every value can be sent to another process.

/** Who called a tool. `session` is attribution, never authority. */
export interface ToolCaller {
  readonly agent: string;
  readonly session?: string;
  readonly attribution: "direct" | "token" | "none";
  readonly callId: string;
}

export interface ToolRequestInput {
  readonly args: readonly string[];
  /** Standard input of the launcher, if it had one. */
  readonly stdin?: Uint8Array;
  readonly cwd?: string;
}

export interface ToolAnswer {
  readonly output: string | Uint8Array;
  /** 0 when absent. */
  readonly exitCode?: number;
  /** Said to the caller on standard error; sets exitCode 1 when that is absent. */
  readonly error?: string;
}

export interface ToolDefinition {
  /** Lower-case word; the launcher's name in the sandbox. */
  readonly name: string;
  readonly description: string;
  /** `config` is Plugin.spec.config with the agent's own merged over it. */
  run(
    input: ToolRequestInput,
    context: { readonly caller: ToolCaller; readonly config: Readonly<Record<string, unknown>>; readonly signal: AbortSignal },
  ): Promise<ToolAnswer>;
}

/** What hooks see of a call; a guard may deny it with a reason. Fails closed after 5 s. */
export interface CallHookInput {
  readonly agent: string;
  readonly session?: string;
  readonly tool: string;
  readonly args: readonly string[];
  readonly callId: string;
}

export interface Hooks {
  /** Before the effect. */
  preToolCall?: (input: CallHookInput) => Promise<{ readonly deny: string } | undefined>;
  /** After it; observers never block a call. */
  postToolCall?: (input: CallHookInput & { readonly exitCode: number; readonly durationMs: number }) => Promise<void>;
  /** Before a tool of a session runs; observers never block it. Channels say it where `verbose` is on. */
  onToolStart?: (input: {
    readonly agent: string;
    readonly session: string;
    readonly tool: string;
    readonly args: Readonly<Record<string, unknown>>;
    readonly verbose: boolean;
  }) => Promise<void>;
  /** Before an LLM request of an agent; may deny it, or replace the last user text. */
  prePrompt?: (input: {
    readonly agent: string;
    readonly session?: string;
    readonly text: string;
  }) => Promise<{ readonly deny: string } | { readonly text: string } | undefined>;
  /**
   * Before an answer reaches whoever asked: may withhold it, or replace its text. Where a hook has this, the whole answer is held back until all
   * have read it, and its tool calls are made after that. `thinking` can be read, not changed.
   */
  preResponse?: (input: {
    readonly agent: string;
    readonly session?: string;
    readonly text: string;
    readonly thinking: string;
    readonly toolCalls: readonly { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> }[];
    readonly provider: string;
    readonly model: string;
  }) => Promise<{ readonly deny: string } | { readonly text: string } | undefined>;
  /** After an answer. */
  postResponse?: (input: {
    readonly agent: string;
    readonly session?: string;
    readonly text: string;
    readonly provider: string;
    readonly model: string;
  }) => Promise<void>;
  /** When another model than the first one answered. */
  modelSwitched?: (input: {
    readonly agent: string;
    readonly session?: string;
    readonly from: string;
    readonly to: string;
  }) => Promise<void>;
}

/** The one way in: everything that a plugin brings is registered here. */
export interface PluginRegistrar {
  tool(definition: ToolDefinition): void;
  hooks(hooks: Hooks): void;
}

/** What a plugin is given when it is made. */
export interface PluginContext {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** Value of a secret that the manifest names under this key. Throws when it cannot be had. */
  secret(key: string): Promise<string>;
  /** A private folder of the plugin below BEIGE_HOME; agents cannot write it. */
  readonly dataFolder: string;
  /** One line for the operator. */
  log(message: string, fields?: Readonly<Record<string, string | number | boolean>>): void;
}

export interface PluginInstance {
  /** Registers everything, before anything is called. */
  register(registrar: PluginRegistrar): Promise<void>;
  /** Background work after the gateway listens. */
  start?(): Promise<void>;
  stop?(): Promise<void>;
}

/** The export of a plugin's entry point. */
export type CreatePlugin = (context: PluginContext) => Promise<PluginInstance>;

/** plugin.json. */
export interface PluginManifest {
  readonly name: string;
  readonly description: string;
  readonly version?: string;
  /** Entry point, relative to the folder; index.js or index.ts when absent. */
  readonly main?: string;
  readonly commands?: readonly string[];
  readonly provides: { readonly tools?: readonly string[]; readonly hooks?: readonly string[] };
  /** Files mounted read-only at /tools/packages/NAME, relative to the folder; README.md and SKILL.md when absent. */
  readonly files?: readonly string[];
}
