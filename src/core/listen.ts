// Where the gateway listens, as people write it: loopback only, since the token is all that guards it.
import { BeigeError } from "./errors.ts";

export interface Listen {
  readonly host?: string;
  readonly port?: number | "none";
}

const ADDRESS = /^(?:(127\.0\.0\.1|localhost|\[::1\]):)?(\d{1,5})$/;
const HINT = "none, a port, or a port of 127.0.0.1, localhost or [::1]";

function parse(text: string, what: string, hint: string): { readonly host?: string; readonly port: number } {
  const found = ADDRESS.exec(text);
  const port = Number(found?.[2]);
  if (!found || port > 65_535) throw new BeigeError("invalid", `cannot ${what} on "${text}"`, { hint });
  return found[1] === undefined ? { port } : { host: found[1].replace(/^\[|\]$/g, ""), port };
}

/** `none`, PORT or HOST:PORT. */
export function parseListen(text: string | undefined): Listen {
  if (text === undefined || text === "") return {};
  return text === "none" ? { port: "none" } : parse(text, "listen", HINT);
}

/** The same for the door with TLS. It is on the host of the other one, so that a host is only for the eye. */
export function parseKubeListen(text: string | undefined): { readonly kubePort?: number } {
  if (text === undefined || text === "" || text === "none") return {};
  return { kubePort: parse(text, "listen for kubectl", "--kube-listen 7443, or none").port };
}
