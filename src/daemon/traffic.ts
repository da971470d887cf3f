// What carries traffic: tool calls, LLM requests, sessions and the sandbox behind them, put together.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createDocker } from "../../sandbox/docker.ts";
import { guestPath } from "../../sandbox/guest.ts";
import { systemClock } from "../adapters/clock.ts";
import { createPi } from "../adapters/pi.ts";
import { systemRandom } from "../adapters/random.ts";
import { createRelay } from "../adapters/relay.ts";
import type { Engine } from "../engine/engine.ts";
import { createCalls } from "../gateway/call.ts";
import { createChat } from "../gateway/chat.ts";
import { createEcho } from "../gateway/echo.ts";
import { createHooks } from "../gateway/hooks.ts";
import { createLimiter } from "../gateway/limiter.ts";
import { createPluginHost } from "../gateway/plugins.ts";
import { createSockets } from "../gateway/sockets.ts";
import { coreToolSchemas } from "../gateway/tools.ts";
import { createTurns } from "../gateway/turns.ts";
import type { DaemonOptions, Foundation } from "./foundation.ts";

/** Plugins of the product: above src/ in a clone and in a published package alike. */
const BUILTINS = join(dirname(fileURLToPath(import.meta.url)), "../../plugins");

/** Above that of every gateway before, also where the store that counted was lost. */
function nextEpoch(shelf: Foundation["store"]["shelf"]): number {
  const epoch = Math.max(systemClock.now(), Number(shelf.get("epoch") ?? 0) + 1);
  shelf.set("epoch", `${epoch}`, true);
  return epoch;
}

/** `engine` is asked late, since it is made from this. */
export function traffic(base: Foundation, options: DaemonOptions, engine: () => Engine) {
  const { home, log, store, secrets, audit, redact } = base;
  const clock = systemClock;
  const random = systemRandom;
  const sandbox = createDocker({ socketPath: options.engine, guest: guestPath(), epoch: nextEpoch(store.shelf), clock, log });
  const changed = (name: string): void => engine().wake({ kind: "Plugin", namespace: "", name });
  const plugins = createPluginHost({ home, builtins: BUILTINS, host: () => base.host.policy(), secrets, log, clock, onChange: changed });
  const hooks = createHooks({ plugins, clock, log, redact });
  const { directory, shelf } = store;
  const { call, calls, tokens } = createCalls({
    directory,
    audit,
    plugins,
    hooks,
    sandbox,
    agents: store.agents,
    secrets,
    clock,
    random,
    log,
    onIdle: (uid) => engine().nudgeUid(uid),
  });
  const sockets = createSockets({ home, call, tokens, clock, log, onHello: (uid) => engine().wakeUid(uid) });
  const pi = createPi({ log });
  const echo = createEcho(clock);
  const limiter = createLimiter(clock);
  const llm = (api: string) => (api === "echo" ? echo : pi.llm);
  const chat = createChat({
    directory,
    llm,
    relay: createRelay(),
    secrets,
    hooks,
    audit,
    limiter,
    ledger: base.ledger,
    shelf,
    clock,
    random,
    log,
  });
  const packageOf = (agent: Parameters<typeof plugins.tool>[0], tool: string): string | undefined => plugins.tool(agent, tool)?.plugin;
  const doors = createTurns({
    directory,
    chat,
    call,
    runtime: pi.runtime,
    shelf,
    home,
    clock,
    random,
    log,
    audit,
    tools: coreToolSchemas,
    packageOf,
    hooks,
  });
  const busy = (): number => directory.agents().reduce((sum, { metadata }) => sum + doors.sessions.open(metadata.uid), 0);
  base.watch({ limiter, sessions: () => ({ open: doors.inMemory(), busy: busy() }) });
  return { road: chat, sandbox, plugins, call, calls, sockets, ...doors };
}
