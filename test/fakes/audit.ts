// An audit chain in memory: which calls are open, and every row.
import type { Audit, AuditCall, AuditOutcome } from "../../src/core/audit.ts";

export interface FakeRow {
  readonly phase: "begin" | "end" | "denied" | "note";
  readonly call: string;
  readonly row: AuditCall;
  readonly outcome?: Partial<AuditOutcome>;
}

export class FakeAudit implements Audit {
  readonly rows: FakeRow[] = [];
  /** Calls with a begin row and no end row. */
  readonly open = new Set<string>();
  /** What an append says while the disk is full. */
  failure: Error | undefined;

  /** Called before each row; what it throws, the append rejects with. */
  onRow: (row: FakeRow) => void = () => undefined;

  async #append(row: FakeRow): Promise<void> {
    await Promise.resolve();
    this.onRow(row);
    if (this.failure !== undefined) throw this.failure;
    this.rows.push(row);
  }

  async begin(call: string, row: AuditCall): Promise<void> {
    await this.#append({ phase: "begin", call, row });
    this.open.add(call);
  }

  async end(call: string, row: AuditCall, outcome: AuditOutcome): Promise<void> {
    this.open.delete(call);
    await this.#append({ phase: "end", call, row, outcome });
  }

  denied(call: string, row: AuditCall, error: string): Promise<void> {
    return this.#append({ phase: "denied", call, row, outcome: { error } });
  }

  note(call: string, row: AuditCall, outcome?: Partial<AuditOutcome>): Promise<void> {
    return this.#append({ phase: "note", call, row, ...(outcome === undefined ? {} : { outcome }) });
  }
}
