// Randomness from the operating system.
import { randomBytes, randomUUID } from "node:crypto";
import type { Random } from "../core/world.ts";

export const systemRandom: Random = {
  uuid: () => randomUUID(),
  hex: (bytes) => randomBytes(bytes).toString("hex"),
  float: () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48,
};
