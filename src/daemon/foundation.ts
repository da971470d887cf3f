// What everything else in the daemon stands on: secrets, records, and the store with its lock.
import { join } from "node:path";
import { bwrapShelf } from "../../sandbox/bwrap/shelf.ts";
import { isKept } from "../../sandbox/resident/kept.ts";
import { createAudit } from "../adapters/audit.ts";
import { systemClock } from "../adapters/clock.ts";
import { createHost } from "../adapters/host.ts";
import { createKeys } from "../adapters/keys.ts";
import { createLog } from "../adapters/log.ts";
import { metered } from "../adapters/metrics/audit.ts";
import { systemRandom } from "../adapters/random.ts";
import { createSecrets } from "../adapters/secrets.ts";
import { createTracing } from "../adapters/tracing.ts";
import type { Listen } from "../core/listen.ts";
import { openStore } from "../engine/store.ts";
import { ledgerOf, metricsOf } from "./accounts.ts";

export interface DaemonOptions {
  /** Absolute path of BEIGE_HOME. */
  readonly home: string;
  /** Where to listen besides the unix socket. */
  readonly listen: Listen;
  /** Port of the door for Kubernetes clients, with TLS; absent: none. */
  readonly kubePort?: number;
  /** Whether schedules fire. */
  readonly firing: boolean;
  /** Unix socket of the Docker engine. */
  readonly engine: string;
  /** Whether the log also goes to standard error. */
  readonly foreground: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Nobody waits for rows of the access log: those of a moment are one write. */
const ACCESS_MS = 50;

export function foundation(options: DaemonOptions, version: string) {
  const { home } = options;
  const logs = join(home, "logs");
  const host = createHost({ home });
  const secrets = createSecrets({ host: () => host.policy(), env: options.env, homeEnvFile: join(home, "env"), clock: systemClock });
  const redact = (text: string): string => secrets.redact(text);
  const log = createLog({ file: join(logs, "gateway.log"), stderr: options.foreground, redact });
  const store = openStore({ home, clock: systemClock, random: systemRandom, log });
  const { metrics, watch } = metricsOf(store);
  const goesOn = (call: string): boolean => isKept(store.shelf, call) || isKept(bwrapShelf(store.shelf), call);
  // The store's lock makes this process the only writer of the chains.
  const chain = (name: string, more: { readonly rideMs?: number } = {}) =>
    metered(
      createAudit({ path: join(logs, `${name}.jsonl`), clock: systemClock, redact, log, closeOpen: true, goesOn, ...more }),
      name,
      metrics,
    );
  const keys = createKeys({ shelf: store.shelf, clock: systemClock, random: systemRandom });
  const ledger = ledgerOf({ store, log, keys });
  const audit = chain("audit");
  const endpoint = host.policy().tracing?.endpoint;
  const tracing = createTracing({ env: options.env, version, log, ...(endpoint === undefined ? {} : { endpoint }) });
  const chains = { audit: tracing?.traced(audit) ?? audit, control: chain("control"), access: chain("access", { rideMs: ACCESS_MS }) };
  return { home, host, secrets, redact, log, store, keys, ledger, metrics, watch, tracing, ...chains };
}

export type Foundation = ReturnType<typeof foundation>;
