// The road that the API was given, where it was given one.
import { BeigeError } from "../../core/errors.ts";
import type { RunRoad } from "../../core/road.ts";
import type { RouteDeps } from "../deps.ts";

export function roadOf(deps: RouteDeps): RunRoad {
  if (deps.road === undefined) throw new BeigeError("unavailable", "this gateway has no way to models");
  return deps.road;
}
