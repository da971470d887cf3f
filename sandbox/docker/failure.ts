// Says what went wrong with the engine, in the words of the error table.
import { BeigeError, type ErrorCode } from "../../src/core/errors.ts";

interface EngineFailure {
  readonly code?: string;
  readonly statusCode?: number;
  readonly message: string;
  readonly json?: unknown;
}

const asFailure = (error: unknown): EngineFailure => (error instanceof Error ? error : { message: String(error) });

/** HTTP status of the engine's answer; undefined when it did not answer. */
export const statusOf = (error: unknown): number | undefined => asFailure(error).statusCode;

/** The engine's own sentence, one line, bounded. */
export function messageOf(error: unknown): string {
  const failure = asFailure(error);
  const said = failure.json !== null && typeof failure.json === "object" ? (failure.json as { message?: unknown }).message : undefined;
  const text = typeof said === "string" ? said : failure.message.replace(/^\(HTTP code \d+\) [a-z /]*- /, "");
  return text.replaceAll(/\s+/g, " ").trim().slice(0, 400);
}

const CODES: Readonly<Record<number, ErrorCode>> = { 400: "invalid", 403: "denied", 404: "not_found", 409: "conflict" };

function unreachable(failure: EngineFailure, doing: string, socketPath: string): BeigeError {
  const cause = { cause: failure };
  if (failure.code === "EACCES" || failure.code === "EPERM") {
    return new BeigeError("unavailable", `not permitted to use the docker engine at ${socketPath}`, {
      hint: "sudo usermod -aG docker $USER, then log in again",
      ...cause,
    });
  }
  if (failure.code === "ENOENT" || failure.code === "ECONNREFUSED") {
    return new BeigeError("unavailable", `no docker engine answers at ${socketPath}`, { hint: "sandbox/engine.sh starts one", ...cause });
  }
  return new BeigeError("unavailable", `the docker engine broke off while asked to ${doing}: ${messageOf(failure)}`, cause);
}

/** `doing` completes "asked to ...". */
export function engineError(error: unknown, doing: string, socketPath: string): BeigeError {
  if (error instanceof BeigeError) return error;
  const failure = asFailure(error);
  if (failure.statusCode === undefined) return unreachable(failure, doing, socketPath);
  const code = CODES[failure.statusCode] ?? "unavailable";
  return new BeigeError(code, `docker could not ${doing}: ${messageOf(error)}`, { cause: error });
}
