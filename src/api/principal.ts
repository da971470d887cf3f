// Who asks, as the gate found out, for routes that decide by it; and the id of a request, from the edge to the records.
import { randomUUID } from "node:crypto";
import type { Principal } from "../core/call.ts";
import { byOf, type Exchange } from "./exchange.ts";

export const principalOf = ({ request }: Exchange): Principal => byOf(request.raw).principal;

/** The client's own id of its request where it is one, to be found again in the records. */
export function requestOf({ request }: Exchange): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}
