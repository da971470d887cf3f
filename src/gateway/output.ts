// Keeps the head and the tail of a command's output in memory, and the whole of it in a file of the workspace.
import type { Clock } from "../core/world.ts";
import type { ExecHandle } from "../core/sandbox.ts";
import { limited } from "./deadline.ts";
import { type Inside, WORKSPACE } from "./inside.ts";

/** The whole output is kept up to this size, in bytes. */
export const WHOLE_BYTES_MAX = 16 * 1024 * 1024;
const WRITE_MS = 10_000;

/** Number of bytes at the end of `data` that begin a character which is not whole. */
function partial(data: Buffer): number {
  for (let back = 1; back <= Math.min(3, data.length); back += 1) {
    const byte = data[data.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? back : 0;
  }
  return 0;
}

export class HeadAndTail {
  readonly #half: number;
  #head: Buffer[] = [];
  #headSize = 0;
  #tail: Buffer[] = [];
  #tailSize = 0;
  total = 0;

  constructor(capBytes: number) {
    this.#half = Math.floor(capBytes / 2);
  }

  get cut(): boolean {
    return this.total > 2 * this.#half;
  }

  add(data: Uint8Array): void {
    this.total += data.length;
    const forHead = Math.min(data.length, this.#half - this.#headSize);
    if (forHead > 0) this.#head.push(Buffer.from(data.subarray(0, forHead)));
    this.#headSize += Math.max(0, forHead);
    if (forHead >= data.length) return;
    this.#tail.push(Buffer.from(data.subarray(Math.max(0, forHead))));
    this.#tailSize += data.length - Math.max(0, forHead);
    if (this.#tailSize > 2 * this.#half || this.#tail.length > 1_024) this.#trim();
  }

  #trim(): void {
    const whole = Buffer.concat(this.#tail);
    this.#tail = [Buffer.from(whole.subarray(Math.max(0, whole.length - this.#half)))];
    this.#tailSize = this.#tail[0]?.length ?? 0;
  }

  /** Everything, or head and tail with `note` between them. */
  render(note: (leftOut: number) => string): Buffer {
    this.#trim();
    const head = Buffer.concat(this.#head);
    const tail = this.#tail[0] ?? Buffer.alloc(0);
    if (!this.cut) return Buffer.concat([head, tail]);
    const kept = head.subarray(0, head.length - partial(head));
    let from = 0;
    while (from < 3 && ((tail[from] ?? 0) & 0xc0) === 0x80) from += 1;
    const rest = tail.subarray(from);
    return Buffer.concat([kept, Buffer.from(note(this.total - kept.length - rest.length)), rest]);
  }
}

/** A file that output goes to as it comes, through the sandbox: the host writes nothing below an agent's folder. */
export class WholeFile {
  readonly path: string;
  readonly #inside: Inside;
  readonly #clock: Pick<Clock, "after">;
  readonly #stop = new AbortController();
  #handle: ExecHandle | undefined;
  #drained: Promise<void> | undefined;
  #size = 0;
  #broken = false;

  constructor(inside: Inside, clock: Pick<Clock, "after">, call: string) {
    this.path = `.beige/output/${call}.txt`;
    this.#inside = inside;
    this.#clock = clock;
  }

  get started(): boolean {
    return this.#size > 0;
  }

  /** Never throws: a full workspace must not fail the command. */
  async write(data: Uint8Array): Promise<void> {
    const part = data.subarray(0, WHOLE_BYTES_MAX - this.#size);
    this.#size += part.length;
    if (this.#broken || part.length === 0) return;
    await this.#try(async () => {
      const handle = (this.#handle ??= await this.#open());
      await handle.write(part);
    });
  }

  async #open(): Promise<ExecHandle> {
    const command = ["/beige/tool-client", "put", "--max", String(WHOLE_BYTES_MAX), "--", `${WORKSPACE}/${this.path}`];
    const handle = await this.#inside.exec({ command, timeoutMs: 3_700_000 }, this.#stop.signal);
    this.#drained = (async () => {
      for await (const chunk of handle.output) if (chunk.data.length > WHOLE_BYTES_MAX) return;
    })();
    return handle;
  }

  async #try(work: () => Promise<void>): Promise<void> {
    try {
      await limited(this.#clock, { ms: WRITE_MS, what: "writing output" }, work);
    } catch {
      this.#broken = true;
      this.#stop.abort(new Error("output is not kept"));
      this.#handle?.kill();
    }
  }

  /** Where the output is, in words; the empty text when it could not be kept. */
  async finish(): Promise<string> {
    await this.#try(async () => {
      await this.#handle?.end();
      await this.#drained;
      const exit = await this.#handle?.exit;
      if (exit?.kind !== "code" || exit.code !== 0) throw new Error("not kept");
    });
    if (this.#broken) return "";
    return this.#size >= WHOLE_BYTES_MAX ? `its first ${WHOLE_BYTES_MAX} bytes are in ${this.path}` : `all of it is in ${this.path}`;
  }
}
