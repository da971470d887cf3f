// The composition root: every port meets its implementation here, and nowhere else.
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { enableCompileCache } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { kinds as allKinds } from "../controllers/index.ts";
import { guestPath } from "../sandbox/guest.ts";
import { createKits } from "../sandbox/launchers.ts";
import { createAuditReader } from "./adapters/audit/reader.ts";
import { ensureCertificate } from "./adapters/certificate.ts";
import { systemClock } from "./adapters/clock.ts";
import { openHome } from "./adapters/home.ts";
import { systemRandom } from "./adapters/random.ts";
import { operatorToken } from "./adapters/token.ts";
import { createTrees } from "./adapters/trees.ts";
import { createApi } from "./api/api.ts";
import { BeigeError } from "./core/errors.ts";
import { parseKubeListen, parseListen } from "./core/listen.ts";
import type { Outside } from "./core/world.ts";
import { kindsFor } from "./daemon/backend.ts";
import { foundation, type DaemonOptions } from "./daemon/foundation.ts";
import { traffic } from "./daemon/traffic.ts";
import { warmPool } from "./daemon/warm.ts";
import { createEngine, type Engine } from "./engine/engine.ts";

const here = dirname(fileURLToPath(import.meta.url));
/** How old the container engine's state in a health answer may be, about. */
const HEALTH_MS = 1000;

export interface Daemon {
  readonly socket: string;
  readonly url?: string;
  /** Of the door for Kubernetes clients. */
  readonly kube?: string;
  readonly warning?: string;
  /** Bounded: ends within 11 s. */
  stop(): Promise<void>;
}

/** package.json lies above src/ in a clone and above dist/src/ in a published package. */
function packageVersion(): string {
  const path = [join(here, "../package.json"), join(here, "../../package.json")].find(existsSync);
  return path === undefined ? "0.0.0" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Starts a gateway on a home. Throws `conflict` when another one has it. */
export async function startDaemon(given: DaemonOptions): Promise<Daemon> {
  const kinds = kindsFor(allKinds, given.env);
  const home = openHome(given.home);
  // The agent loop's SDK is large: from the second start of a home on, its first chat takes two thirds of the time.
  enableCompileCache(join(home, "cache"));
  const options = { ...given, home };
  const version = packageVersion();
  const base = foundation(options, version);
  const { log, store } = base;
  let engine: Engine | undefined;
  const theEngine = (): Engine => {
    if (engine === undefined) throw new BeigeError("internal", "the engine is asked before it is made");
    return engine;
  };
  await Promise.all([base.audit.ready(), base.control.ready(), base.access.ready()]);
  const roads = traffic(base, options, theEngine);
  const onHint = (name: string): void => theEngine().wake({ kind: "Source", namespace: "", name });
  const trees = createTrees({ clock: systemClock, log, onHint });
  const outside: Outside = {
    clock: systemClock,
    random: systemRandom,
    log,
    home,
    firing: options.firing,
    store: store.id,
    control: base.control,
    secrets: base.secrets,
    sandbox: roads.sandbox,
    workspaces: roads.workspaces,
    kits: createKits({ home, guest: guestPath(), seatOf: store.agents.seats.of }),
    sockets: roads.sockets,
    plugins: roads.plugins,
    providers: roads.providers,
    sessions: roads.sessions,
    calls: roads.calls,
    state: store.agents,
    firings: store.firings,
    turns: roads.turns,
    trees,
  };
  const defaultHome = given.home === join(homedir(), ".beige");
  const warm = warmPool(base, outside, defaultHome);
  const world: Outside = { ...outside, warm };
  engine = createEngine({
    store,
    kinds,
    world,
    host: () => base.host.policy(),
    home,
    defaultHome,
    clock: systemClock,
    random: systemRandom,
    log,
    onPass: (kind, outcome) => base.metrics.count("reconciles", { kind, outcome }),
  });
  let engineState = "unknown";
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  /** Whoever asks for the health often does not ask the container engine as often. */
  const lookAtEngine = async (): Promise<void> => {
    if (systemClock.monotonic() - lookedAtMs < HEALTH_MS) return;
    lookedAtMs = systemClock.monotonic();
    engineState = await roads.sandbox.ping().then(
      () => "ok",
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  };
  let doors: { readonly url?: string; readonly kube?: string; readonly warning?: string } = {};
  const api = createApi({
    control: engine,
    audit: createAuditReader(join(home, "logs", "audit.jsonl")),
    directory: store.directory,
    call: roads.call,
    turn: roads.turn,
    road: roads.road,
    sessions: roads.desk,
    egress: roads.egress,
    checks: roads.checks,
    snapshots: roads.snapshots,
    token: operatorToken(home, systemRandom),
    keys: base.keys,
    accounts: base.ledger,
    metrics: base.metrics,
    providers: roads.providers,
    access: { chain: base.access, random: systemRandom },
    version,
    home,
    clock: systemClock,
    log,
    health: () => {
      void lookAtEngine();
      return {
        ready: true,
        engine: engineState,
        version,
        store: store.id,
        schedules: options.firing,
        hostPolicy: base.host.error() ?? "ok",
        warm: { levels: warm.levels(), waiting: warm.waiting() },
        ...doors,
      };
    },
  });
  await lookAtEngine();
  const tls =
    options.kubePort === undefined ? {} : { kube: { port: options.kubePort, ...ensureCertificate(home, systemClock, systemRandom) } };
  const listening = await api.listen({ socket: join(home, "beige.sock"), ...options.listen, ...tls });
  doors = { url: listening.url, kube: listening.kube, warning: listening.warning };
  if (listening.warning !== undefined) log.warn("a port could not be opened", { warning: listening.warning });
  await engine.start();
  roads.backgrounds.resume();
  await roads.resume();
  warm.start();
  log.info("gateway is up", { home, url: listening.url, version, schedules: options.firing });
  return {
    ...listening,
    async stop() {
      await Promise.all([api.close(), roads.stop()]);
      await Promise.all([engine.stop(), warm.stop()]);
      trees.close();
      await roads.sockets.closeAll();
      await roads.plugins.stop();
      roads.backgrounds.stop();
      roads.sandbox.close?.();
      base.keys.close();
      await Promise.all([base.audit.close(), base.control.close(), base.access.close()]);
      await base.tracing?.stop();
      store.close();
      log.info("gateway is down", { home });
      log.close();
    },
  };
}

/** The engine's socket: DOCKER_HOST where it names one. */
function engineSocket(env: NodeJS.ProcessEnv): string {
  const host = env["DOCKER_HOST"];
  if (host === undefined || host === "") return "/var/run/docker.sock";
  if (!host.startsWith("unix://")) {
    throw new BeigeError("invalid", `DOCKER_HOST is ${host}; only an engine on this machine is supported`, {
      hint: "export DOCKER_HOST=unix:///var/run/docker.sock",
    });
  }
  return host.slice("unix://".length);
}

async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const after = (flag: string): string | undefined => (argv.includes(flag) ? argv[argv.indexOf(flag) + 1] : undefined);
  const daemon = await startDaemon({
    home: resolve(after("--home") ?? (env["BEIGE_HOME"] || join(homedir(), ".beige"))),
    listen: parseListen(after("--listen") ?? env["BEIGE_LISTEN"]),
    ...parseKubeListen(after("--kube-listen") ?? env["BEIGE_KUBE_LISTEN"]),
    firing: argv.includes("--schedules"),
    engine: engineSocket(env),
    foreground: env["BEIGE_DETACHED"] !== "1",
    env,
  });
  if (daemon.warning !== undefined) process.stderr.write(`${daemon.warning}\n`);
  let stopping = false;
  const end = (): void => {
    // A second signal, or an end that does not come, ends at once: nothing durable is lost.
    if (stopping) process.kill(process.pid, "SIGKILL");
    stopping = true;
    setTimeout(() => process.kill(process.pid, "SIGKILL"), 11_000).unref();
    daemon.stop().then(
      () => (process.exitCode = 0),
      (error: unknown) => {
        process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
        process.exitCode = 70;
      },
    );
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, end);
  process.on("SIGHUP", () => {});
}

if (import.meta.main) {
  main(process.argv.slice(2), process.env).catch((error: unknown) => {
    const known = error instanceof BeigeError;
    process.stderr.write(`error: ${known ? error.message : error instanceof Error ? error.stack : String(error)}\n`);
    if (known && error.hint !== undefined) process.stderr.write(`fix: ${error.hint}\n`);
    process.exitCode = known ? 5 : 70;
  });
}
