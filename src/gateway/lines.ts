// Cuts a byte stream into lines of bounded length, however it was split on its way.

export interface Lines {
  /** False when a line is too long: nothing more is read from this stream. */
  push(chunk: Buffer): boolean;
  /** Bytes of a line that has begun. */
  readonly held: number;
  /** Lets go of them. */
  drop(): void;
}

export function createLines(maxBytes: number, onLine: (line: Buffer) => void): Lines {
  let parts: Buffer[] = [];
  let held = 0;
  const take = (rest: Buffer): Buffer => {
    const line = parts.length === 0 ? rest : Buffer.concat([...parts, rest]);
    parts = [];
    held = 0;
    return line;
  };
  return {
    push: (chunk) => {
      let from = 0;
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        if (held + end - from > maxBytes) return false;
        onLine(take(chunk.subarray(from, end)));
        from = end + 1;
      }
      if (from === chunk.length) return true;
      parts.push(chunk.subarray(from));
      held += chunk.length - from;
      // One byte at a time must not become one object a byte.
      if (parts.length > 64) parts = [Buffer.concat(parts)];
      return held <= maxBytes;
    },
    get held() {
      return held;
    },
    drop: () => {
      parts = [];
      held = 0;
    },
  };
}
