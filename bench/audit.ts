// Durable audit rows: what grouping keeps of the disk's rate, and what one row alone costs over one fdatasync.
import { closeSync, fdatasync, fstatSync, mkdtempSync, openSync, readSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAudit } from "../src/adapters/audit.ts";
import { systemClock } from "../src/adapters/clock.ts";
import type { AuditCall } from "../src/core/audit.ts";
import { atMost, interleaved, type Line, timed } from "./measure.ts";

const CALLERS = 64;
const ROUNDS = 40;
const ALONE = 100;

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

/** Bytes that the chain has grown by since `from`. */
function grown(path: string, from: number): Buffer {
  const fd = openSync(path, "r");
  const bytes = Buffer.alloc(fstatSync(fd).size - from);
  readSync(fd, bytes, 0, bytes.length, from);
  closeSync(fd);
  return bytes;
}

/** Every caller writes its next row when its last one is on the disk. */
async function together({ audit }: Ground): Promise<void> {
  const caller = async (number: number): Promise<void> => {
    for (let i = 0; i < ROUNDS; i++) await audit.begin(`00000000-0000-4000-8000-${String(number * ROUNDS + i).padStart(12, "0")}`, row);
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)));
}

async function alone({ audit }: Ground): Promise<void> {
  for (let i = 0; i < ALONE; i++) await audit.begin(`00000000-0000-4000-8000-${String(i).padStart(12, "0")}`, row);
}

/** As every program with an event loop must do it: not blocking it while the disk works. */
const synced = (fd: number): Promise<void> =>
  new Promise((done, fail) => fdatasync(fd, (error) => (error === null ? done() : fail(error))));

/** The same bytes in as many equal parts, each with one write and one fdatasync. */
async function parts({ fd }: Ground, bytes: Buffer, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const [from, to] = [Math.floor((i * bytes.length) / count), Math.floor(((i + 1) * bytes.length) / count)];
    writeSync(fd, bytes, from, to - from);
    await synced(fd);
  }
}

async function compared(ground: Ground, work: (ground: Ground) => Promise<void>, count: number) {
  let bytes: Buffer = Buffer.alloc(0);
  const ours = async (): Promise<number> => {
    const from = statSync(ground.path).size;
    const took = await timed(() => work(ground));
    bytes = grown(ground.path, from);
    return took / count;
  };
  await ours();
  return interleaved({ turns: 15, warmUp: 3 }, ours, async () => (await timed(() => parts(ground, bytes, count))) / count);
}

export async function auditing(): Promise<readonly Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-audit-"));
  const path = join(folder, "audit.jsonl");
  // As the daemon makes it, with a redaction.
  const audit = createAudit({ path, clock: systemClock, redact: (text) => text.replaceAll("secret-value", "[secret]") });
  const fd = openSync(join(folder, "floor"), "a");
  try {
    await audit.ready();
    const ground = { path, audit, fd };
    const many = await compared(ground, together, ROUNDS);
    truncateSync(join(folder, "floor"));
    const one = await compared(ground, alone, ALONE);
    const rate = Math.round((CALLERS / many.value) * 1000);
    const told = {
      line: "audit: 64 rows of 64 callers",
      unit: "ms",
      limit: 2,
      note: `${rate} rows/s; floor: the same bytes, one write and fdatasync for 64 rows`,
    } as const;
    return [
      atMost(told, many),
      atMost({ line: "audit: one row of one caller", unit: "ms", limit: 2, note: "floor: the same bytes, write and fdatasync" }, one),
    ];
  } finally {
    closeSync(fd);
    await audit.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
