// Who asks, as the gate found out, for routes that decide by it; and the id of a request, from the edge to the records.
import type { Principal } from "../core/call.ts";
import { byOf, requestIdOf, type Exchange } from "./exchange.ts";

export const principalOf = ({ request }: Exchange): Principal => byOf(request.raw).principal;
export const requestOf = ({ request }: Exchange): string => requestIdOf(request.raw);
