// Remembers the health of models: in memory for every request, on the shelf for the next start.
import { answered, cooling, failed, HEALTHY, parseHealth, type Health } from "../core/health.ts";
import type { Limiter } from "./limiter.ts";
import type { Clock, Directory, Providers, Shelf } from "../core/world.ts";

/** Models that are remembered in memory at once. */
const MODELS_MAX = 10_000;

export interface HealthBook {
  /** End of the active cooldown, in milliseconds since the epoch. */
  coolingUntil(provider: string, model: string): number | undefined;
  failed(provider: string, model: string, failure: { readonly message: string; readonly coolMs?: number }): void;
  answered(provider: string, model: string): void;
  readonly providers: Providers;
}

const prefixOf = (provider: string): string => `health/${encodeURIComponent(provider)}/`;
const keyOf = (provider: string, model: string): string => prefixOf(provider) + encodeURIComponent(model);

export interface HealthDeps {
  readonly shelf: Shelf;
  readonly clock: Clock;
  readonly limiter: Limiter;
  readonly directory: Directory;
  /** What a provider's status shows of a model is another now. */
  readonly onHealth?: (provider: string) => void;
}

export function createHealth(deps: HealthDeps): HealthBook {
  const { shelf, clock } = deps;
  const known = new Map<string, Health>();
  const get = (key: string): Health => {
    const held = known.get(key);
    if (held !== undefined) return held;
    const text = shelf.get(key);
    const health = text === undefined ? HEALTHY : parseHealth(text, clock.now());
    // Only a bound on memory: what is dropped is read again from the shelf.
    if (known.size >= MODELS_MAX) known.clear();
    known.set(key, health);
    return health;
  };
  /** Failures of one kind come in crowds: only the first of them is news. */
  const shown = (health: Health): string => `${health.failures > 0} ${cooling(health, clock.now()) !== undefined}`;
  const put = (provider: string, key: string, health: Health): void => {
    const before = shown(get(key));
    known.set(key, health);
    if (health === HEALTHY) shelf.delete(key);
    else shelf.set(key, JSON.stringify(health));
    if (shown(health) !== before) deps.onHealth?.(provider);
  };
  return {
    coolingUntil: (provider, model) => cooling(get(keyOf(provider, model)), clock.now()),
    failed(provider, model, failure) {
      const key = keyOf(provider, model);
      put(provider, key, failed(get(key), failure, clock.now()));
    },
    answered(provider, model) {
      const key = keyOf(provider, model);
      const before = get(key);
      // The usual case writes nothing.
      if (before === HEALTHY || (before.failures === 0 && before.lastError === undefined)) return;
      put(provider, key, answered(before, clock.now()));
    },
    providers: providersOf(deps, { get, known }),
  };
}

function providersOf(deps: HealthDeps, book: { get(key: string): Health; readonly known: Map<string, Health> }): Providers {
  const { shelf, limiter, directory, clock } = deps;
  const modelsOf = (name: string): readonly string[] => {
    const prefix = prefixOf(name);
    const heard = shelf.list(prefix).map((row) => decodeURIComponent(row.key.slice(prefix.length)));
    const listed = directory.provider(name)?.spec.models.map((model) => model.id) ?? [];
    return [...new Set([...listed, ...heard])];
  };
  return {
    seen(name) {
      const wanted = directory.provider(name)?.spec.concurrency;
      // The provider's controller looks after each change of the spec: a raised limit lets waiting requests go at once.
      if (wanted !== undefined) limiter.limit(name, wanted);
      const slots = limiter.seen(name);
      return {
        slots,
        models: modelsOf(name).map((id) => {
          const health = book.get(keyOf(name, id));
          const until = cooling(health, clock.now());
          return {
            id,
            failures: health.failures,
            ...(until === undefined ? {} : { coolingUntil: until }),
            ...(health.lastError === undefined ? {} : { lastError: health.lastError }),
          };
        }),
      };
    },
    forget(name) {
      const prefix = prefixOf(name);
      for (const key of book.known.keys()) if (key.startsWith(prefix)) book.known.delete(key);
      for (const row of shelf.list(prefix)) shelf.delete(row.key);
      limiter.forget(name);
    },
  };
}
