// A gateway by its address instead of its home: what --gateway and BEIGE_GATEWAY name, with the token that goes there.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../core/errors.ts";
import type { Place } from "./client.ts";

const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"]);
const DEFAULT_PORT = 7433;

export interface Remote {
  readonly env: NodeJS.ProcessEnv;
  readonly flag: string | undefined;
  readonly home: string;
}

/** Undefined when no address is named: the gateway of the home. The token never goes over a wire in the clear. */
export function remotePlace({ env, flag, home }: Remote): Place | undefined {
  const text = flag ?? env["BEIGE_GATEWAY"] ?? "";
  if (text === "") return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== "" || url.password !== "" || url.pathname !== "/" || url.search !== "")
    throw new BeigeError("invalid", `"${text}" is not the address of a gateway`, { hint: `--gateway http://127.0.0.1:${DEFAULT_PORT}` });
  if (url.protocol !== "http:" || !LOOPBACK.has(url.hostname))
    throw new BeigeError("denied", `${text} is not plain HTTP on this machine's loopback: the token is not sent there`, {
      hint: `ssh -N -L ${DEFAULT_PORT}:127.0.0.1:${DEFAULT_PORT} HOST, then --gateway http://127.0.0.1:${DEFAULT_PORT}`,
    });
  const port = url.port === "" ? (text.includes(":80") ? 80 : DEFAULT_PORT) : Number(url.port);
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port, token: tokenOf(env, home) };
}

/** BEIGE_TOKEN, the file that BEIGE_TOKEN_FILE names, or the home's own. */
function tokenOf(env: NodeJS.ProcessEnv, home: string): string {
  const path = env["BEIGE_TOKEN_FILE"] || join(home, "token");
  let token = env["BEIGE_TOKEN"] ?? "";
  if (token === "")
    try {
      token = readFileSync(path, "utf8").trim();
    } catch (error) {
      throw new BeigeError("denied", `there is no token for the gateway: ${path} cannot be read`, {
        hint: "export BEIGE_TOKEN=..., or BEIGE_TOKEN_FILE=PATH; beige key create NAME makes one",
        cause: error,
      });
    }
  if (/^[\x21-\x7e]{16,1024}$/.test(token)) return token;
  throw new BeigeError("denied", "the token for the gateway is not one", { hint: "export BEIGE_TOKEN=..., or BEIGE_TOKEN_FILE=PATH" });
}
