// What the egress proxy needs of the outside: names, connections and TLS. The implementation is an adapter.
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { HostPolicy } from "../../../schemas/types.ts";
import type { Audit } from "../../core/audit.ts";
import type { Clock, Directory, Log, Random, Secrets } from "../../core/world.ts";

/** Every wait has a limit of its own; throws BeigeError. */
export interface Network {
  /** All addresses of a name. */
  resolve(host: string): Promise<readonly string[]>;
  /** To one of these addresses and no other. */
  connect(addresses: readonly string[], port: number): Promise<Socket>;
  /** TLS to the host, which must show that it is the host. */
  secure(socket: Socket, host: string): Promise<TLSSocket>;
  /** TLS as if we were the host, towards the sandbox. */
  intercept(socket: Socket, host: string): Promise<TLSSocket>;
  writeBundle(path: string): void;
}

export interface EgressLimits {
  /** Connections of one agent at once. */
  readonly connections: number;
  readonly idleMs: number;
  /** Longest wait for a client's TLS hello. */
  readonly helloMs: number;
  readonly headerBytes: number;
  /** In and out together, of one connection. */
  readonly bytes: number;
  /** How often open connections are held against the manifest. */
  readonly lookMs: number;
}

export const EGRESS_LIMITS: EgressLimits = {
  connections: 128,
  idleMs: 300_000,
  helloMs: 10_000,
  headerBytes: 16 * 1024,
  bytes: 16 * 1024 ** 3,
  lookMs: 500,
};

export interface EgressDeps {
  readonly home: string;
  readonly seatOf?: import("../../core/seat.ts").SeatOf;
  readonly directory: Pick<Directory, "agentByUid">;
  /** What the operator of this machine allows. */
  readonly host: () => Pick<HostPolicy, "egress">;
  readonly network: Network;
  readonly audit: Pick<Audit, "begin" | "end" | "denied">;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly clock: Clock;
  readonly random: Pick<Random, "uuid">;
  readonly log: Log;
  readonly limits?: Partial<EgressLimits>;
}
