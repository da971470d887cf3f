// Tokens of running commands: what a launcher call says to be attributed to the session whose command made it. Never authority.
import type { Random } from "../core/world.ts";

export interface TokenFor {
  readonly uid: string;
  /** Call id of the command. */
  readonly call: string;
  readonly session?: string;
  readonly request?: string;
}

export interface Tokens {
  /** Undefined for an absent, unknown, ended or foreign token. */
  find(uid: string, token: string | undefined): TokenFor | undefined;
  mint(owner: TokenFor): string;
  drop(token: string): void;
}

export function createTokens(random: Pick<Random, "hex">): Tokens {
  const live = new Map<string, TokenFor>();
  return {
    find: (uid, token) => {
      const owner = token === undefined ? undefined : live.get(token);
      return owner?.uid === uid ? owner : undefined;
    },
    mint: (owner) => {
      const token = random.hex(16);
      live.set(token, owner);
      return token;
    },
    drop: (token) => void live.delete(token),
  };
}
