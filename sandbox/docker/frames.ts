// Takes apart the two layers of bytes that come out of an exec: Docker's 8-byte frames, and in their standard output the guest's own.

/** A frame longer than this that has to be kept whole is not the guest's. */
const SMALL_MAX = 4096;

export interface Piece {
  readonly stream: "stdout" | "stderr";
  readonly data: Uint8Array;
}

/** Docker's framing: [stream u8][0 0 0][length u32 BE]. Payload passes through as it comes, so nothing is kept but a header. */
export function createDemux(): (chunk: Uint8Array) => readonly Piece[] {
  const head = new Uint8Array(8);
  let have = 0;
  let left = 0;
  let stream: Piece["stream"] = "stdout";
  return (chunk) => {
    const out: Piece[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (left > 0) {
        const data = chunk.subarray(at, at + left);
        out.push({ stream, data });
        left -= data.length;
        at += data.length;
        continue;
      }
      head[have++] = chunk[at++] ?? 0;
      if (have < 8) continue;
      have = 0;
      if ((head[0] ?? 9) > 2 || head[1] !== 0 || head[2] !== 0 || head[3] !== 0) throw new Error("not a Docker stream");
      stream = head[0] === 2 ? "stderr" : "stdout";
      left = new DataView(head.buffer).getUint32(4);
    }
    return out;
  };
}

export type GuestFrame =
  | { readonly type: "output"; readonly piece: Piece }
  | { readonly type: "exit"; readonly json: string }
  | { readonly type: "credit"; readonly bytes: number };

/** The guest's framing: [type u8][length u32 BE]; 1 stdout, 2 stderr, 3 exit, 4 credit. Throws on anything else. */
export function createGuestFrames(): (chunk: Uint8Array) => readonly GuestFrame[] {
  const head = new Uint8Array(5);
  let have = 0;
  let left = 0;
  let small: Uint8Array[] = [];
  const finish = (out: GuestFrame[]): void => {
    const whole = Buffer.concat(small);
    small = [];
    if (head[0] === 3) out.push({ type: "exit", json: whole.toString("utf8") });
    else if (whole.length === 4) out.push({ type: "credit", bytes: whole.readUInt32BE(0) });
  };
  const open = (): void => {
    left = new DataView(head.buffer).getUint32(1);
    const type = head[0] ?? 0;
    if (type < 1 || type > 4 || (type > 2 && left > SMALL_MAX)) throw new Error("not the guest's frame");
  };
  return (chunk) => {
    const out: GuestFrame[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (have < 5) {
        head[have++] = chunk[at++] ?? 0;
        if (have < 5) continue;
        open();
      } else {
        const data = chunk.subarray(at, at + left);
        left -= data.length;
        at += data.length;
        if ((head[0] ?? 0) > 2) small.push(data.slice());
        else out.push({ type: "output", piece: { stream: head[0] === 2 ? "stderr" : "stdout", data } });
      }
      if (left > 0) continue;
      have = 0;
      if ((head[0] ?? 0) > 2) finish(out);
    }
    return out;
  };
}

/** What goes in: 0 data, 1 end of input, 2 cancel. */
export function frameIn(type: 0 | 1 | 2, data: Uint8Array = new Uint8Array()): Buffer {
  const frame = Buffer.allocUnsafe(5 + data.length);
  frame[0] = type;
  frame.writeUInt32BE(data.length, 1);
  frame.set(data, 5);
  return frame;
}
