// The SDK's session for a conversation: its loop, with no model, no tool, no file and no resource but the gateway's.
import {
  createAgentSessionFromServices,
  createAgentSessionRuntime,
  createAgentSessionServices,
  initTheme,
  InteractiveMode,
  SessionManager,
  type AgentSessionServices,
  type CreateAgentSessionRuntimeFactory,
} from "@mariozechner/pi-coding-agent";
import { BeigeError } from "../core/errors.ts";
import type { SessionLoop } from "../core/session.ts";
import { extensionOf } from "./commands.ts";
import type { Entry } from "./gateway.ts";
import type { Keeper } from "./keeper.ts";
import { modelIn, modelsOf } from "./models.ts";
import { settingsOf } from "./settings.ts";
import type { Screen } from "./screen.ts";
import { roadStream } from "./stream.ts";
import { commandsOf, newKey, open, talkOf, warn, type Terminal } from "./terminal.ts";
import { toolsOf } from "./tools.ts";

interface Opened {
  readonly loop: SessionLoop;
  readonly manager: SessionManager;
  readonly keeper: Keeper;
  readonly screen: Screen;
}

/** The conversation that was loaded, or a new one with the same agent: `given` is empty then, or a copy of a part of the old one. */
function opened(terminal: Terminal, given: SessionManager): Opened {
  const { next, here, screen } = terminal;
  terminal.next = undefined;
  const loop = (next ?? here)?.loop;
  if (loop === undefined) throw new BeigeError("internal", "no conversation was loaded");
  const manager = next === undefined ? given : SessionManager.inMemory(loop.cwd, undefined, next.entries.map(screen.shownEntry) as never);
  const talk = next?.talk ?? { agent: talkOf(terminal).agent, session: newKey(terminal.now()) };
  const entries = (): readonly Entry[] => (manager.getEntries() as readonly unknown[] as readonly Entry[]).map(screen.wholeEntry);
  return { loop, manager, screen, keeper: open(terminal, loop, { talk, entries, had: next === undefined ? 0 : entries().length }) };
}

async function servicesOf(terminal: Terminal, { loop, keeper, screen }: Opened, agentDir: string): Promise<AgentSessionServices> {
  const onFallback = (model: string): void => warn(terminal, `answered by ${model}, a fallback`);
  return createAgentSessionServices({
    cwd: loop.cwd,
    agentDir,
    settingsManager: settingsOf(loop),
    modelRuntime: await modelsOf(loop, roadStream(terminal.gateway, keeper.talk, { onFallback, screen })),
    resourceLoaderOptions: {
      noExtensions: true,
      noSkills: true,
      noPromptTemplates: true,
      noThemes: true,
      noContextFiles: true,
      // Not as `systemPrompt`: that reads the file which a text happens to name.
      systemPromptOverride: () => loop.systemPrompt,
      appendSystemPromptOverride: () => [],
      extensionFactories: [{ name: "beige", factory: extensionOf(commandsOf(terminal)), hidden: true }],
    },
  });
}

const factoryOf =
  (terminal: Terminal): CreateAgentSessionRuntimeFactory =>
  async ({ agentDir, sessionManager, sessionStartEvent }) => {
    const here = opened(terminal, sessionManager);
    const services = await servicesOf(terminal, here, agentDir);
    const model = modelIn(services.modelRuntime, here.loop);
    const made = await createAgentSessionFromServices({
      services,
      sessionManager: here.manager,
      ...(sessionStartEvent !== undefined && { sessionStartEvent }),
      ...(model !== undefined && { model }),
      thinkingLevel: here.loop.settings.thinking,
      // An allowlist: with anything else this machine's own shell stays within the model's reach.
      tools: here.loop.tools.map((tool) => tool.name),
      customTools: toolsOf(terminal.gateway, here.keeper.talk, here),
    });
    made.session.agent.toolExecution = "sequential";
    return { ...made, services, diagnostics: services.diagnostics };
  };

/** Takes the terminal over. The SDK ends the process when the person does. */
export async function start(terminal: Terminal, agentDir: string): Promise<void> {
  const cwd = terminal.next?.loop.cwd ?? "/";
  const runtime = await createAgentSessionRuntime(factoryOf(terminal), { cwd, agentDir, sessionManager: SessionManager.inMemory(cwd) });
  initTheme();
  // Its hint at reports to its developers is not ours: errors here are the gateway's.
  const mode = new InteractiveMode(runtime, {});
  Object.assign(mode as object, { bugReportHintShown: true });
  await mode.run();
}
