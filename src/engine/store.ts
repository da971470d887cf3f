// The store: what is wanted and what must outlive the process, in one SQLite file with one writer.
import type { LedgerBook } from "../core/ledger.ts";
import type { AgentState, Clock, Directory, Firings, Log, Random, Shelf } from "../core/world.ts";
import { createEvents, type EventLimits, type EventLog } from "./events.ts";
import { createAgents, type AgentRows } from "./store/agents.ts";
import { connect, type Connection } from "./store/connection.ts";
import { createDirectory } from "./store/directory.ts";
import { createFirings } from "./store/firings.ts";
import { createHistory, type History, type HistoryLimits } from "./store/history.ts";
import { createLedgerBook } from "./store/ledger.ts";
import { lockStore } from "./store/lock.ts";
import { createObjects, type Objects } from "./store/objects.ts";
import { preparePlace } from "./store/place.ts";
import { createRecords, type Records } from "./store/records.ts";
import { createShelf } from "./store/shelf.ts";

export interface Store {
  /** Identifies this store on the container engine. */
  readonly id: string;
  readonly agents: AgentState & Pick<AgentRows, "seats">;
  readonly firings: Firings;
  readonly directory: Directory;
  readonly shelf: Shelf;
  readonly ledger: LedgerBook;
  /** The engine's own parts. */
  readonly objects: Objects;
  readonly history: History;
  readonly records: Records;
  readonly events: EventLog;
  readonly intents: Pick<AgentRows, "intent">;
  close(): void;
}

export interface StoreDeps {
  /** Absolute path of BEIGE_HOME; made when absent. */
  readonly home: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly limits?: { readonly history?: HistoryLimits; readonly events?: EventLimits };
  /** Who runs the gateway, when that is not this process's user. */
  readonly owner?: { readonly uid: number; readonly gid: number };
}

function assemble(connection: Connection, deps: StoreDeps): Omit<Store, "close"> {
  const history = createHistory(connection, deps.limits?.history);
  const records = createRecords(connection.full);
  const objects = createObjects({ connection, history, records, clock: deps.clock, log: deps.log });
  const agents = createAgents(connection, deps.owner);
  const ledger = createLedgerBook(connection, deps.clock, deps.log);
  objects.subscribe((rows) => {
    for (const row of rows) if (row.type === "DELETED") agents.forget(row.object.metadata.uid);
  });
  return {
    id: String(connection.full.prepare("SELECT value FROM meta WHERE key = 'store'").get()?.["value"]),
    agents,
    intents: agents,
    firings: createFirings(connection, deps.clock),
    directory: createDirectory(objects),
    shelf: createShelf(connection),
    ledger,
    objects,
    history,
    records,
    events: createEvents(connection, deps.clock, deps.limits?.events),
  };
}

/**
 * Opens or makes BEIGE_HOME/state.db.
 * Throws `conflict` while another gateway has it, `unavailable` for a damaged file, a newer format or a network file system.
 */
export function openStore(deps: StoreDeps): Store {
  preparePlace(deps.home);
  const lock = lockStore(deps.home);
  let connection: Connection | undefined;
  try {
    connection = connect(deps.home, () => deps.random.uuid());
    const parts = assemble(connection, deps);
    const opened = connection;
    let closed = false;
    return {
      ...parts,
      close() {
        if (closed) return;
        closed = true;
        parts.ledger.end();
        opened.close();
        lock.release();
      },
    };
  } catch (error) {
    connection?.close();
    lock.release();
    throw error;
  }
}
