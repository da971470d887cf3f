// Generated from the schemas by `npm run gen`: do not edit. Every default is filled in.

export interface Schemas {
  provider?: ProviderSpec;
  plugin?: PluginSpec;
  agent?: AgentSpec;
  schedule?: ScheduleSpec;
  source?: SourceSpec;
  host?: HostPolicy;
  /**
   * Name, labels and annotations of an object; the rest is written by beige.
   */
  metadata?: {
    /**
     * RFC 1123 label: lower-case letters, digits and '-', at most 63 characters.
     */
    name: string;
    /**
     * Namespace of Agents and Schedules; 'default' when absent. Providers, Plugins and Sources have none.
     */
    namespace?: string;
    /**
     * Words to select objects by.
     */
    labels?: {
      [k: string]: string;
    };
    /**
     * Notes. Those below beige.dev/ are read by beige; all others are yours.
     */
    annotations?: {
      [k: string]: string;
    };
  };
  Hello?: Hello;
  ToolRequest?: ToolRequest;
  ToolResponse?: ToolResponse;
}
/**
 * What the provider should be.
 */
export interface ProviderSpec {
  /**
   * Wire format. 'echo' is built in, offline and deterministic.
   */
  api: "echo" | "openai-completions" | "anthropic-messages" | "openai-responses" | "google-generative-ai";
  /**
   * http(s) address of the API, with its version (/v1, /v1beta) but for anthropic-messages, which adds it; known APIs have a default.
   */
  baseUrl?: string;
  apiKey?: Secret;
  /**
   * Parallel requests; -1 is no limit. Further requests wait in order and are never rejected.
   */
  concurrency: number;
  /**
   * Longest wait for one answer, in seconds.
   */
  timeoutSeconds: number;
  budget?: Budget;
  /**
   * Facts about models that are not known otherwise, or corrections.
   *
   * @maxItems 500
   */
  models: ModelFacts[];
  echo?: EchoSpec;
}
/**
 * A reference to a secret, never the secret itself: {secret: NAME} names an entry of host.yaml; {env: NAME} is the operator's shorthand.
 */
export interface Secret {
  /**
   * Name of a secret in host.yaml.
   */
  secret?: string;
  /**
   * Variable of the gateway's environment, or of BEIGE_HOME/env.
   */
  env?: string;
}
/**
 * Hard limits on what LLM requests may use. Each try of a model is reserved before it is sent and settled after it. Days and months are UTC.
 */
export interface Budget {
  daily?: BudgetLimits;
  monthly?: BudgetLimits;
  /**
   * A model whose Provider tells no cost, under a limit in US dollars: refuse it, or let it pass uncounted.
   */
  unknownPrice: "refuse" | "allow";
}
/**
 * Limits of a period; what is absent has none.
 */
export interface BudgetLimits {
  /**
   * US dollars, at the models' prices.
   */
  usd?: number;
  /**
   * Tokens in and out, cached ones too.
   */
  tokens?: number;
  /**
   * Requests to a provider; each try of a model is one.
   */
  requests?: number;
}
export interface ModelFacts {
  /**
   * Model id as the provider writes it.
   */
  id: string;
  /**
   * Context size in tokens.
   */
  contextWindow: number;
  /**
   * Longest answer in tokens.
   */
  maxTokens: number;
  /**
   * What the model reads.
   */
  input: ("text" | "image")[];
  /**
   * Whether the model thinks.
   */
  reasoning: boolean;
  cost?: ModelCost;
}
/**
 * Price in US dollars per million tokens.
 */
export interface ModelCost {
  /**
   * Per million input tokens.
   */
  input: number;
  /**
   * Per million output tokens.
   */
  output: number;
  /**
   * Per million tokens read from the provider's cache.
   */
  cacheRead: number;
  /**
   * Per million tokens written to the provider's cache.
   */
  cacheWrite: number;
}
/**
 * Script of the built-in echo provider (api: echo only).
 */
export interface EchoSpec {
  /**
   * The first step whose 'match' fits the last message answers; a step fires once a turn; no match repeats the text.
   *
   * @maxItems 1000
   */
  steps: EchoStep[];
}
export interface EchoStep {
  /**
   * Regular expression on the last message.
   */
  match: string;
  /**
   * Whose message is matched.
   */
  from: "user" | "tool";
  /**
   * Answer; $0 is the matched message.
   */
  text?: string;
  toolCall?: EchoToolCall;
  error?: EchoError;
  /**
   * Wait before answering, in milliseconds.
   */
  delayMs: number;
}
/**
 * Answer with a tool call.
 */
export interface EchoToolCall {
  /**
   * Core tool.
   */
  tool: "read" | "write" | "patch" | "exec";
  /**
   * Arguments of the tool.
   */
  args: {
    [k: string]: unknown;
  };
}
/**
 * Fail as a provider would.
 */
export interface EchoError {
  /**
   * HTTP status.
   */
  status: number;
  /**
   * When to try again, in milliseconds.
   */
  retryAfterMs?: number;
}
/**
 * What the plugin should be.
 */
export interface PluginSpec {
  source: PluginSource;
  /**
   * Handed to the plugin; an Agent's spec.plugins.NAME is merged over it.
   */
  config: {
    [k: string]: unknown;
  };
  /**
   * Secrets that the plugin may read, by the name it uses.
   */
  secrets: {
    [k: string]: Secret;
  };
}
/**
 * Where the code comes from: exactly one of the keys.
 */
export interface PluginSource {
  /**
   * A plugin that ships with beige.
   */
  builtin?: string;
  /**
   * Folder with plugin.json and its entry point, relative to the manifest.
   */
  path?: string;
  /**
   * Package and exact version.
   */
  npm?: string;
  /**
   * Repository and commit.
   */
  git?: {
    [k: string]: unknown;
  };
}
/**
 * What the agent should be.
 */
export interface AgentSpec {
  model: AgentModel;
  /**
   * Models to try in order when the first does not answer.
   *
   * @maxItems 50
   */
  fallbacks: FallbackModel[];
  /**
   * System prompt: text, or {file: PATH} relative to the manifest. The content is part of the wanted state.
   */
  instructions: string | TextFile;
  /**
   * Core tools that the agent may call.
   */
  coreTools: ("read" | "write" | "patch" | "exec")[];
  /**
   * Plugin tools that the agent may call, by name or PLUGIN/TOOL. Nothing else may be called.
   *
   * @maxItems 500
   */
  tools: string[];
  /**
   * Configuration by plugin name, merged over Plugin.spec.config: objects merge, lists and scalars replace.
   */
  plugins: {
    [k: string]: {
      [k: string]: unknown;
    };
  };
  /**
   * Skills of the agent.
   */
  skills?: string[];
  /**
   * Role in messages between agents.
   */
  role?: string;
  sandbox: AgentSandbox;
  workspace: AgentWorkspace;
  update: AgentUpdate;
  budget?: Budget;
  /**
   * Stops the sandbox and refuses prompts and calls.
   */
  suspend: boolean;
}
/**
 * The model that answers first.
 */
export interface AgentModel {
  /**
   * Name of a Provider.
   */
  provider: string;
  /**
   * Model id as the provider writes it.
   */
  id: string;
  /**
   * How long the model thinks.
   */
  thinking: "off" | "minimal" | "low" | "medium" | "high";
  /**
   * Tokens of context at which the older part of a session is summarised; 90 % of the model's window when absent, and never more.
   */
  compactAt?: number;
}
export interface FallbackModel {
  /**
   * Name of a Provider.
   */
  provider: string;
  /**
   * Model id.
   */
  id: string;
}
export interface TextFile {
  /**
   * Path of a text file below the manifest's folder.
   */
  file: string;
}
/**
 * The container that the agent's commands run in.
 */
export interface AgentSandbox {
  /**
   * What isolates the agent. docker: containers. bwrap: bubblewrap, without an engine; image is host, or a folder below BEIGE_HOME/images; where the host gives no control groups, limits are each process's own. A new agent that does not name one gets BEIGE_SANDBOX of the gateway; one that is there stays where it is.
   */
  backend: "docker" | "bwrap";
  /**
   * Image that is present on the engine.
   */
  image: string;
  /**
   * eager: the container is made and started at once. lazy: at the first call or prompt, and it runs from then on.
   */
  start: "eager" | "lazy";
  /**
   * strict: no root, read-only system. packages: root inside and a writable system, so that packages can be installed.
   */
  profile: "strict" | "packages";
  /**
   * Packages that the image is to have besides its own, NAME or NAME=VERSION: from the package manager of the image (apt-get, apk, dnf, microdnf), built once into an image beige-derived.
   *
   * @maxItems 100
   */
  packages?: string[];
  /**
   * Runtime of the engine, such as runsc.
   */
  runtime?: string;
  /**
   * One container an agent, or one a session.
   */
  scope: "agent" | "session";
  /**
   * PATH inside the sandbox, behind /tools/bin.
   */
  path: string;
  resources: SandboxResources;
  network: SandboxNetwork;
  /**
   * Host folders inside the sandbox; their roots are allowed in host.yaml.
   *
   * @maxItems 200
   */
  mounts: SandboxMount[];
  /**
   * Environment inside. Never secrets: docker inspect shows it.
   */
  env: {
    [k: string]: string;
  };
  /**
   * Host variables passed through.
   */
  envFrom?: string[];
  /**
   * Programs that the agent may run.
   */
  commands?: string[];
  /**
   * How commands are carried.
   */
  supervisor?: string;
}
/**
 * Limits of the container.
 */
export interface SandboxResources {
  /**
   * Memory, swap included (Kubernetes quantity).
   */
  memory: string | number;
  /**
   * Processor time in cores (Kubernetes quantity).
   */
  cpus: string | number;
  /**
   * Processes and threads.
   */
  pids: number;
  /**
   * Size of /tmp.
   */
  tmp: string | number;
  /**
   * How much of the disk the workspace may take. No quota but a watchdog: above it, new commands and writes are refused until it is below again. Absent: no limit.
   */
  disk?: string | number;
}
/**
 * What the sandbox can reach.
 */
export interface SandboxNetwork {
  /**
   * none: nothing. allowlist: the hosts of allow, through the gateway. open: the engine's bridge network. A change between none and allowlist is live.
   */
  mode: "none" | "open" | "allowlist";
  /**
   * Hosts of mode allowlist: HOST:PORT, *.HOST (the names below it), or an entry with more. Port 443 when none is said.
   *
   * @maxItems 500
   */
  allow?: (string | EgressEntry)[];
}
export interface EgressEntry {
  /**
   * Host name, *.NAME, or an address.
   */
  host: string;
  /**
   * Ports; 443 when absent.
   *
   * @maxItems 64
   */
  ports?: number[];
  /**
   * The host may have an address that is not public, where host.yaml allows it too (egress.private).
   */
  private?: boolean;
  /**
   * Secret of host.yaml that the gateway puts into each request; the sandbox never has it. The gateway then answers the host's TLS itself.
   */
  secret?: string;
  /**
   * Header that carries the secret; Authorization when absent.
   */
  header?: string;
  /**
   * Text before the value; 'Bearer ' in Authorization, nothing elsewhere.
   */
  prefix?: string;
}
export interface SandboxMount {
  /**
   * Host path, relative to the manifest or absolute.
   */
  source: string;
  /**
   * Path inside.
   */
  target: string;
  /**
   * Whether the agent may only read.
   */
  readOnly: boolean;
}
/**
 * The folder that is /workspace inside.
 */
export interface AgentWorkspace {
  /**
   * Host folder, relative to the manifest or absolute; one below BEIGE_HOME when absent.
   */
  path?: string;
  /**
   * What happens to the folder when the agent is deleted.
   */
  onDelete: "retain" | "delete";
  /**
   * session: a snapshot of the folder is kept before each new session begins.
   */
  snapshot: "never" | "session";
  /**
   * Whether another agent may have the same folder.
   */
  shared: boolean;
}
/**
 * How a container is replaced.
 */
export interface AgentUpdate {
  /**
   * drain: running calls may finish. immediate: they are cut. onIdle: the old container serves until no session and no call runs. manual: it serves until `beige rollout restart`.
   */
  strategy: "drain" | "immediate" | "onIdle" | "manual";
  /**
   * Longest wait for running calls, in seconds.
   */
  drainTimeoutSeconds: number;
}
/**
 * What is sent to whom, and when.
 */
export interface ScheduleSpec {
  /**
   * Name of an Agent in the same namespace.
   */
  agent: string;
  /**
   * Five fields: minute hour day month weekday. With fixed hours, a time that the clock skips is due once, at the end of the gap, and one that it shows twice the first time only; with * as the hour real time counts.
   */
  cron: string;
  /**
   * IANA time zone; the host's when absent (get shows it).
   */
  timeZone?: string;
  /**
   * The prompt.
   */
  input: string;
  /**
   * What happens while the last run still goes on: skip, run beside it, or end it first.
   */
  concurrency: "forbid" | "allow" | "replace";
  /**
   * Whether times missed while the gateway was down fire once afterwards.
   */
  catchUp: "once" | "none";
  /**
   * How old a missed time may be to be caught up, in seconds.
   */
  catchUpWindowSeconds: number;
  /**
   * Stops firing.
   */
  suspend: boolean;
}
/**
 * Which folder, and what may follow from it.
 */
export interface SourceSpec {
  /**
   * The folder: *.yaml, *.yml and *.json in it and below are read, hidden files and folders are not. Relative paths start at this manifest's folder.
   */
  path: string;
  /**
   * Deletes objects that left the folder; deleting the Source then deletes its objects too. Without it they stay, and are released with the Source.
   */
  prune: boolean;
  /**
   * What happens when somebody deletes an object of this Source or takes its fields by force: heal puts them back, detect only reports.
   */
  selfHeal: "heal" | "detect";
  /**
   * How often the folder is read whatever the watch on it says: 30s, 5m, 1h.
   */
  interval: string;
  /**
   * Stops reading the folder; objects stay as they are.
   */
  suspend: boolean;
  /**
   * How many objects one revision may delete: a share such as 30% (then always at least one), or a number. A revision that would delete more is refused.
   */
  maxDeletes: string | number;
  /**
   * Whether a folder without any object is a revision; otherwise it is taken for an accident and refused.
   */
  allowEmpty: boolean;
  /**
   * Values of ${NAME} in the manifests; the gateway's environment is never used. No place for secrets.
   */
  vars: {
    [k: string]: string;
  };
}
/**
 * host.yaml in BEIGE_HOME: what the operator of this machine allows. Manifests cannot change it.
 */
export interface HostPolicy {
  /**
   * Secrets by name, and the hosts each may be sent to.
   */
  secrets: HostSecret[];
  paths: HostPaths;
  egress?: HostEgress;
  build?: HostBuild;
  tracing?: HostTracing;
  /**
   * Sandboxes that are kept started for new agents, which take one where it is just what their manifest asks for; at most 16 in all.
   *
   * @maxItems 16
   */
  warm?: HostWarm[];
  sources?: HostSources;
}
export interface HostSecret {
  /**
   * Name that manifests use.
   */
  name: string;
  /**
   * Variable of the gateway's environment or of BEIGE_HOME/env.
   */
  env?: string;
  /**
   * File whose first line is the value; it must not be readable by others.
   */
  file?: string;
  /**
   * Program and arguments that print the value.
   */
  exec?: string[];
  /**
   * Hosts that the value may be sent to: NAME, NAME:PORT or *.NAME.
   */
  hosts: string[];
}
/**
 * Roots below which manifests may name host folders.
 */
export interface HostPaths {
  /**
   * Roots of sandbox mounts.
   */
  mounts: string[];
  /**
   * Roots of workspaces outside BEIGE_HOME.
   */
  workspaces: string[];
  /**
   * Roots of plugins by path.
   */
  plugins: string[];
}
/**
 * Where sandboxes may go that is not the public internet.
 */
export interface HostEgress {
  /**
   * Hosts with private, loopback or link-local addresses that a manifest may allow with private: true: NAME, NAME:PORT, *.NAME or an address.
   */
  private: string[];
}
/**
 * How images with sandbox.packages are built.
 */
export interface HostBuild {
  /**
   * HTTP proxy that builds use.
   */
  proxy?: string;
  /**
   * default: the engine's bridge network. none: the package lists of the image name local folders.
   */
  network?: "default" | "none";
}
/**
 * Where spans of turns, LLM requests and tool calls are sent. Read when the gateway starts; OTEL_EXPORTER_OTLP_ENDPOINT wins.
 */
export interface HostTracing {
  /**
   * Base address of an OTLP/HTTP collector, such as http://127.0.0.1:4318.
   */
  endpoint?: string;
}
export interface HostWarm {
  /**
   * Image, as manifests write it.
   */
  image: string;
  /**
   * How many wait.
   */
  count: number;
  /**
   * As sandbox.profile; strict when absent.
   */
  profile?: "strict" | "packages";
  /**
   * As sandbox.runtime.
   */
  runtime?: string;
  /**
   * As sandbox.path.
   */
  path?: string;
  network?: HostWarmNetwork;
  /**
   * As sandbox.env.
   */
  env?: {
    [k: string]: string;
  };
  resources?: HostWarmResources;
}
/**
 * As sandbox.network; one of mode none serves mode allowlist too.
 */
export interface HostWarmNetwork {
  /**
   * none or open.
   */
  mode: "none" | "open";
}
/**
 * Limits while it waits; whoever takes it brings its own, but for tmp.
 */
export interface HostWarmResources {
  /**
   * As sandbox.resources.memory.
   */
  memory?: string | number;
  /**
   * As sandbox.resources.cpus.
   */
  cpus?: string | number;
  /**
   * As sandbox.resources.pids.
   */
  pids?: number;
  /**
   * As sandbox.resources.tmp.
   */
  tmp?: string | number;
}
/**
 * What the manifests of a Source may bring. Whoever can write its folder has this power.
 */
export interface HostSources {
  /**
   * Kinds of objects. Providers, Plugins and Sources carry the gateway's own power.
   */
  kinds: ("Agent" | "Schedule" | "Provider" | "Plugin" | "Source")[];
  /**
   * Variables of the gateway's environment that {env: NAME} may name.
   */
  variables: string[];
}
/**
 * Sent by PID 1 when it is up; the connection stays open and nothing else is sent on it.
 */
export interface Hello {
  type: "hello";
  /**
   * Protocol version.
   */
  v: number;
  /**
   * Host name inside, which is the short id of the container.
   */
  container: string;
}
/**
 * A tool call. Whatever it says of identity is ignored: the socket is the identity.
 */
export interface ToolRequest {
  type: "tool_request";
  /**
   * Protocol version.
   */
  v?: number;
  /**
   * Tool name.
   */
  tool: string;
  /**
   * Arguments as a program gets them.
   */
  args: string[];
  /**
   * The BEIGE_CALL token of the command that runs the launcher.
   */
  call?: string;
  /**
   * Working folder inside.
   */
  cwd?: string;
  /**
   * Standard input, base64, when it is not a terminal.
   */
  stdin?: string;
}
/**
 * The answer.
 */
export interface ToolResponse {
  type: "tool_response";
  /**
   * Whether the tool ran and succeeded.
   */
  success: boolean;
  /**
   * Text output.
   */
  output?: string;
  /**
   * Output that is not UTF-8 text.
   */
  outputBase64?: string;
  /**
   * Why it failed.
   */
  error?: string;
  /**
   * Exit code of the launcher.
   */
  exitCode: number;
}
