// beige schema: the JSON Schema of a kind, or of every document of a stack, for editors and other tools.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { nearest } from "../../core/text.ts";
import { on, type Run } from "../flags.ts";
import { KINDS } from "../names.ts";
import { packageRoot } from "../place.ts";

const NAMES = [...KINDS.map((kind) => kind.kind.toLowerCase()), "host", "socket", "common", "beige"];

export const run: Run = async (context, input) => {
  const asked = (input.args[0] ?? "beige").toLowerCase();
  const name = KINDS.find((kind) => kind.plural === asked || kind.short.includes(asked))?.kind.toLowerCase() ?? asked;
  const path = join(packageRoot, "schemas", `${name}.json`);
  if (!NAMES.includes(name) || !existsSync(path)) {
    const near = nearest(asked, NAMES);
    throw new BeigeError("invalid", `there is no schema "${asked}"`, {
      hint: near === undefined ? `schemas: ${NAMES.join(", ")}` : `did you mean "${near}"?`,
    });
  }
  await context.out.write(on(input, "path") ? `${path}\n` : readFileSync(path, "utf8"));
  return 0;
};
