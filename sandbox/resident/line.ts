// What a link knows of its connection, of the commands on it, and of those that others left.
import type { Hello, Known, Outgoing } from "./frames.ts";
import type { Carrier, Line } from "./greet.ts";
import type { Job } from "./job.ts";

export const BACKOFF_MS = 50;
/** Signals that wait for a connection: far more than a person gives. Of sizes only a command's last counts. */
const LATER_MAX = 64;

export interface State extends Line {
  carrier?: Carrier;
  opening?: Promise<void>;
  /** Nothing is sent until the supervisor has greeted: what a command needs is said then. */
  quiet: boolean;
  /** What is not said then of itself. */
  readonly later: Omit<Outgoing, "sess">[];
  /** Settles the wait for all that was sent so far to have been read. */
  onPong?: (came: boolean) => void;
  /** Of the supervisor that did not come when it was told to dial, and how often. */
  shy?: string;
  shyTimes: number;
  readonly over: AbortController;
  /** Brings a broken connection back while commands wait. */
  mending: boolean;
  opened: number;
  pause: number;
  breaks: number;
  hello?: Hello;
  next: number;
  closed: boolean;
  removed: boolean;
  readonly jobs: Map<number, Job>;
  /** Ended, and kept for the next gateway for a moment. */
  readonly lingering: Map<number, () => void>;
  /** Given up by this gateway: ended as soon as the supervisor can be told. */
  readonly given: Set<number>;
  /** Of an older gateway. */
  readonly strangers: Map<number, Known>;
}

export function begin(): State {
  const maps = { jobs: new Map(), lingering: new Map(), given: new Set<number>(), strangers: new Map() };
  const flags = { quiet: true, shyTimes: 0, mending: false, closed: false, removed: false };
  return { sess: 0, heard: 0, opened: 0, pause: BACKOFF_MS, breaks: 0, next: 0, later: [], over: new AbortController(), ...flags, ...maps };
}

/** Keeps what the next greeting does not repeat. */
export function keepForLater(state: State, frame: Omit<Outgoing, "sess">): void {
  if (frame.type === "F") state.given.add(frame.cmd ?? 0);
  if (frame.type === "S" && state.later.length < LATER_MAX) state.later.push(frame);
  if (frame.type !== "W") return;
  const before = state.later.findIndex(({ type, cmd }) => type === "W" && cmd === frame.cmd);
  if (before >= 0) state.later.splice(before, 1);
  state.later.push(frame);
}

/** Why a command of an older gateway cannot be gone on with. */
export function whyNot(
  known: Known | undefined,
  bytes: number,
  input: { readonly inputBytes?: number | undefined; readonly inputKept?: boolean | undefined },
): string | undefined {
  if (known === undefined) return "the sandbox no longer has the command";
  if (input.inputKept !== true && (input.inputBytes === undefined || known.stdin < input.inputBytes))
    return "its input was cut off with the gateway";
  if (bytes < known.acked || bytes > known.total) return "a part of its output is not there any more";
  return undefined;
}
