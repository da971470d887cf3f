// Durable audit rows: what grouping keeps of the disk's rate, and what one row alone costs over one fdatasync.
import { closeSync, fdatasync, fstatSync, mkdtempSync, openSync, readSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAudit } from "../src/adapters/audit.ts";
import { systemClock } from "../src/adapters/clock.ts";
import type { AuditCall } from "../src/core/audit.ts";
import { atMost, interleaved, type Line, type Pair, timed } from "./measure.ts";

const CALLERS = 64;

const row: AuditCall = {
  agent: "travel",
  type: "tool",
  tool: "memory",
  args: ["save", "greeting", "a text of the length that such texts have, more or less"],
  decision: "allowed",
  target: "gateway",
  principal: "agent",
  session: "cli:default",
};

interface Ground {
  readonly path: string;
  readonly audit: ReturnType<typeof createAudit>;
  /** A file of the floor's own on the same disk. */
  readonly fd: number;
}

/** What a caller waits for: its row on the disk. */
type Append = (number: number) => Promise<void>;

/** As many callers, each with its next row when its last one is on the disk. */
async function calls(callers: number, rounds: number, append: Append): Promise<void> {
  const caller = async (first: number): Promise<void> => {
    for (let i = 0; i < rounds; i++) await append(first + i);
  };
  await Promise.all(Array.from({ length: callers }, (_, i) => caller(i * rounds)));
}

/** As every program with an event loop must do it: not blocking it while the disk works. */
const synced = (fd: number): Promise<void> =>
  new Promise((done, fail) => fdatasync(fd, (error) => (error === null ? done() : fail(error))));

/** Nothing but the grouping: whoever waits shares one write and one fdatasync of lines that are there already. */
function rawGroup(fd: number, lines: readonly Buffer[]): Append {
  let waiting: { readonly line: Buffer; readonly done: () => void }[] = [];
  let running = false;
  const run = async (): Promise<void> => {
    running = true;
    await new Promise((turn) => setImmediate(turn));
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      writeSync(fd, Buffer.concat(batch.map(({ line }) => line)));
      await synced(fd);
      for (const { done } of batch) done();
    }
    running = false;
  };
  return (number) =>
    new Promise((done, fail) => {
      waiting.push({ line: lines[number % lines.length] ?? Buffer.alloc(0), done });
      if (!running) run().catch(fail);
    });
}

/** The lines by which the chain has grown since it had `from` bytes. */
function grown(path: string, from: number): readonly Buffer[] {
  const fd = openSync(path, "r");
  const bytes = Buffer.alloc(fstatSync(fd).size - from);
  readSync(fd, bytes, 0, bytes.length, from);
  closeSync(fd);
  return bytes
    .toString()
    .split(/(?<=\n)/)
    .map((line) => Buffer.from(line));
}

/** Milliseconds of one round of all callers. */
async function compared(ground: Ground, callers: number, rounds: number): Promise<Pair> {
  const { path, audit, fd } = ground;
  const begin: Append = (number) => audit.begin(`00000000-0000-4000-8000-${String(number).padStart(12, "0")}`, row);
  let lines: readonly Buffer[] = [];
  const ours = async (): Promise<number> => {
    const from = statSync(path).size;
    const took = await timed(() => calls(callers, rounds, begin));
    lines = grown(path, from);
    return took / rounds;
  };
  await ours();
  return interleaved(
    { turns: 61, warmUp: 12 },
    ours,
    async () => (await timed(() => calls(callers, rounds, rawGroup(fd, lines)))) / rounds,
  );
}

export async function auditing(): Promise<readonly Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-audit-"));
  const path = join(folder, "audit.jsonl");
  // As the daemon makes it, with a redaction.
  const audit = createAudit({ path, clock: systemClock, redact: (text) => text.replaceAll("secret-value", "[secret]") });
  const fd = openSync(join(folder, "floor"), "a");
  try {
    await audit.ready();
    const many = await compared({ path, audit, fd }, CALLERS, 10);
    const one = await compared({ path, audit, fd }, 1, 20);
    const note = `${Math.round((CALLERS / many.value) * 1000)} rows/s; floor: the same lines, grouped, one write and fdatasync`;
    return [
      atMost({ line: `audit: ${CALLERS} rows of ${CALLERS} callers`, unit: "ms", limit: 2, note }, many),
      atMost({ line: "audit: one row of one caller", unit: "ms", limit: 2, note: "floor: the same line, one write and fdatasync" }, one),
    ];
  } finally {
    closeSync(fd);
    await audit.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
