// How much and how long the API lets anybody take: bytes, connections, waits.

export interface Limits {
  readonly bodyBytes: number;
  readonly headerBytes: number;
  /** Nesting of a JSON body. */
  readonly depth: number;
  /** From the connection, or the end of the last answer's idle time, to the last header byte. */
  readonly headersMs: number;
  /** To the last byte of a request's body. */
  readonly requestMs: number;
  /** How long a connection may idle between two requests. */
  readonly keepAliveMs: number;
  readonly tcpConnections: number;
  /** More than over TCP, so that a flood there never locks the operator out. */
  readonly socketConnections: number;
  /** How long a reader may leave a full buffer unread before it is cut. */
  readonly stallMs: number;
  /** How long a stream is silent at most: a word that means nothing is sent then. */
  readonly aliveMs: number;
  /** How long one watch lives when the client names no time, and at most. */
  readonly watchMs: number;
  /** How long turns and calls may go on after `close` before they are aborted. */
  readonly drainMs: number;
}

export const LIMITS: Limits = {
  bodyBytes: 8 * 1024 * 1024,
  headerBytes: 16 * 1024,
  depth: 200,
  headersMs: 10_000,
  requestMs: 60_000,
  keepAliveMs: 15_000,
  tcpConnections: 512,
  socketConnections: 2048,
  stallMs: 30_000,
  aliveMs: 15_000,
  watchMs: 30 * 60_000,
  drainMs: 9_700,
};
