// beige describe: one object, verdict first.
import type { Described } from "../../core/control.ts";
import { BeigeError } from "../../core/errors.ts";
import { type Run, word } from "../flags.ts";
import { targetsOf } from "../names.ts";
import { renderDescribe } from "../render/describe.ts";

export const run: Run = async (context, input) => {
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const all: Described[] = [];
  for (const target of targets) {
    if (target.name === undefined) {
      throw new BeigeError("invalid", `describe needs a name: ${target.kind.kind.toLowerCase()}/NAME`, {
        hint: `beige get ${target.kind.plural}`,
      });
    }
    const query = new URLSearchParams({
      kind: target.kind.kind,
      name: target.name,
      ...(target.namespace !== "" && { namespace: target.namespace }),
    });
    all.push(await context.client.get<Described>({ path: `/api/describe?${query.toString()}` }));
  }
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify(all.length === 1 ? all[0] : all, undefined, 2)}\n`);
  else await context.out.write(all.map((each) => renderDescribe(context.out, each, context.now())).join("\n"));
  return 0;
};
