// What carries traffic: tool calls, LLM requests, sessions and the sandbox behind them, put together.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createBackends } from "../../sandbox/backends.ts";
import { createBwrap } from "../../sandbox/bwrap.ts";
import { bwrapShelf } from "../../sandbox/bwrap/shelf.ts";
import { createDocker } from "../../sandbox/docker.ts";
import { guestPath } from "../../sandbox/guest.ts";
import { REJOIN_MS } from "../../sandbox/resident.ts";
import { systemClock } from "../adapters/clock.ts";
import { createWorkspaces } from "../adapters/disk.ts";
import { createOutward } from "../adapters/egress.ts";
import { createPi } from "../adapters/pi.ts";
import { systemRandom } from "../adapters/random.ts";
import { createSnapshots } from "../adapters/snapshots.ts";
import { createRelay } from "../adapters/relay.ts";
import type { ApiDeps } from "../api/deps.ts";
import { BeigeError } from "../core/errors.ts";
import type { Agent } from "../core/resource.ts";
import type { SeatOf } from "../core/seat.ts";
import type { Snapshots } from "../core/snapshot.ts";
import type { Sandbox, SandboxCheck } from "../core/sandbox.ts";
import type { Engine } from "../engine/engine.ts";
import { createCalls } from "../gateway/call.ts";
import { createChat } from "../gateway/chat.ts";
import { createEgress } from "../gateway/egress.ts";
import { createEcho } from "../gateway/echo.ts";
import { createHooks } from "../gateway/hooks.ts";
import { createLimiter } from "../gateway/limiter.ts";
import { createPluginHost } from "../gateway/plugins.ts";
import { createSnapshotDesk, workspaceOf } from "../gateway/snapshots.ts";
import { createSockets } from "../gateway/sockets.ts";
import { coreToolSchemas } from "../gateway/tools.ts";
import { createTurns } from "../gateway/turns.ts";
import { outOfMemory } from "./accounts.ts";
import { defaultBackend } from "./backend.ts";
import { diskOf } from "./disk.ts";
import type { DaemonOptions, Foundation } from "./foundation.ts";

/** A turn waits no longer for the snapshot that its session begins with. */
const SNAPSHOT_MS = 5 * 60_000;

/** Plugins of the product: above src/ in a clone and in a published package alike. */
const BUILTINS = join(dirname(fileURLToPath(import.meta.url)), "../../plugins");

/** Above that of every gateway before, also where the store that counted was lost. */
function nextEpoch(shelf: Foundation["store"]["shelf"]): number {
  const epoch = Math.max(systemClock.now(), Number(shelf.get("epoch") ?? 0) + 1);
  shelf.set("epoch", `${epoch}`, true);
  return epoch;
}

/** What a session may do to the workspace can be undone, where the manifest asks for that. */
async function beforeSession(
  where: { readonly home: string; readonly seatOf: SeatOf },
  snapshots: Snapshots,
  agent: Agent,
  session: string,
): Promise<void> {
  if (agent.spec.workspace.snapshot !== "session") return;
  const place = { agent: agent.metadata, workspace: workspaceOf(where, agent) };
  await snapshots.create(place, { cause: "session", note: `before session ${session}` }, AbortSignal.timeout(SNAPSHOT_MS));
}

async function checksOf(sandbox: Sandbox, id: string | undefined, signal: AbortSignal): Promise<readonly SandboxCheck[]> {
  if (id === undefined || sandbox.checks === undefined)
    throw new BeigeError("unavailable", "the agent has no sandbox yet", { hint: "beige get agents" });
  return sandbox.checks(id, signal);
}

/** A store without agents is one that will have them, where new ones go. */
const needsDocker = (agents: readonly Agent[], env: DaemonOptions["env"]): boolean =>
  agents.length === 0 ? defaultBackend(env) === "docker" : agents.some(({ spec }) => spec.sandbox.backend !== "bwrap");

/** `engine` is asked late, since it is made from this. */
export function traffic(base: Foundation, options: DaemonOptions, engine: () => Engine) {
  const { home, log, store, secrets, audit, redact } = base;
  const clock = systemClock;
  const random = systemRandom;
  const seatOf = store.agents.seats.of;
  const workspaces = createWorkspaces(clock, home);
  const supervisor = { guest: guestPath(), epoch: nextEpoch(store.shelf), clock, log };
  const kept = { shelf: store.shelf, folder: join(home, "commands") };
  const sandbox = createBackends({
    docker: createDocker({ socketPath: options.engine, kept, ...supervisor }),
    bwrap: createBwrap({ home, kept: { shelf: bwrapShelf(store.shelf), folder: join(home, "commands-bwrap") }, ...supervisor }),
    needsDocker: () => needsDocker(store.directory.agents(), options.env),
  });
  const changed = (name: string): void => engine().wake({ kind: "Plugin", namespace: "", name });
  const plugins = createPluginHost({
    home,
    builtins: BUILTINS,
    host: () => base.host.policy(),
    secrets,
    log,
    clock,
    wanted: () => store.directory.plugins(),
    onChange: changed,
  });
  const hooks = createHooks({ plugins, clock, log, redact });
  const { directory, shelf } = store;
  const egress = createEgress({
    home,
    seatOf,
    directory,
    host: () => base.host.policy(),
    network: createOutward({ home, clock }),
    audit,
    secrets,
    clock,
    random,
    log,
  });
  const { call, rejoin, calls, tokens, rouser, backgrounds } = createCalls({
    directory,
    audit,
    left: audit.left,
    shelf,
    plugins,
    hooks,
    sandbox,
    agents: store.agents,
    secrets,
    clock,
    random,
    log,
    // Of a sandbox that was made before its agent nothing inside says the name.
    environment: (agent) => ({ ...egress.environment(agent), BEIGE_AGENT: agent.metadata.name }),
    disk: diskOf(workspaces, (uid) => engine().wakeUid(uid)),
    wake: (uid) => engine().wakeUid(uid),
    onMemory: (name) => outOfMemory(store, log, name),
    onIdle: (uid) => engine().nudgeUid(uid),
  });
  const limiter = createLimiter(clock);
  const serving = (): boolean =>
    directory.agents().some(({ metadata: { uid } }) => calls.running(uid) > 0) ||
    store.objects.list("Provider").some(({ metadata: { name } }) => limiter.seen(name).used > 0);
  const pi = createPi({ log, busy: serving });
  const onHello = (uid: string): void => engine().wakeUid(uid);
  const sockets = egress.sockets(createSockets({ home, seatOf, call, tokens, clock, log, onHello }));
  const echo = createEcho(clock);
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
    goodKey: (name) => base.keys.good(name),
    onHealth: (name) => engine().wake({ kind: "Provider", namespace: "", name }),
    shelf,
    clock,
    random,
    log,
  });
  const packageOf = (agent: Parameters<typeof plugins.tool>[0], tool: string): string | undefined => plugins.tool(agent, tool)?.plugin;
  const copies = createSnapshots({ home, clock });
  const doors = createTurns({
    onFresh: (agent, session) => beforeSession({ home, seatOf }, copies, agent, session),
    directory,
    chat,
    call,
    rejoin,
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
    onIdle: (uid) => engine().nudgeUid(uid),
  });
  // As long as commands of the gateway before can be taken up again.
  clock.after(
    REJOIN_MS,
    () => void audit.left.close().catch((error: unknown) => log.error("calls were not closed", { error: String(error) })),
  );
  const busy = (): number => directory.agents().reduce((sum, { metadata }) => sum + doors.sessions.open(metadata.uid), 0);
  base.watch({ limiter, sessions: () => ({ open: doors.inMemory(), busy: busy() }) });
  // The sandbox starts while the model thinks.
  const turn: typeof doors.turn = (request, signal) => {
    const agent = directory.agentByUid(request.agent.uid);
    if (agent !== undefined) rouser.prepare(agent);
    return doors.turn(request, signal);
  };
  const checks: ApiDeps["checks"] = (uid, signal) => checksOf(sandbox, store.agents.active(uid), signal);
  const snapshots = createSnapshotDesk({ home, seatOf, snapshots: copies, directory, calls, sessions: doors.sessions, clock });
  return { checks, snapshots, workspaces, road: chat, egress, sandbox, plugins, call, calls, sockets, ...doors, turn, backgrounds };
}
