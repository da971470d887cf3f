// beige describe: one object, verdict first.
import type { Described } from "../../core/control.ts";
import { BeigeError } from "../../core/errors.ts";
import type { Resource } from "../../core/resource.ts";
import { type Context, type Run, word } from "../flags.ts";
import { KINDS, pathOf, targetsOf } from "../names.ts";
import { ownersOf } from "../owners.ts";
import { renderDescribe } from "../render/describe.ts";

const SOURCE = KINDS.find((each) => each.kind === "Source") as (typeof KINDS)[number];

/** What the owning sources are at; one that is gone has nothing to say. */
async function sourcesOf(context: Context, all: readonly Described[]): Promise<ReadonlyMap<string, string>> {
  const names = [...new Set(all.flatMap(({ object }) => ownersOf(object).flatMap(({ source }) => source ?? [])))];
  const revisions = names.map(async (name) => {
    const found = await context.client.get<Resource>({ path: pathOf({ kind: SOURCE, namespace: "", name }) }).catch(() => undefined);
    const revision = found?.status?.observed?.["revision"];
    return typeof revision === "string" ? ([[name, revision]] as const) : [];
  });
  return new Map((await Promise.all(revisions)).flat());
}

export const run: Run = async (context, input) => {
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const all: Described[] = [];
  for (const target of targets) {
    if (target.kind.base !== undefined)
      throw new BeigeError("invalid", `${target.kind.plural} are only projected: there is nothing more to say of one`, {
        hint: target.kind.kind === "Pod" ? `beige describe agent/${target.name ?? "NAME"}` : `beige get ${target.kind.plural} -o yaml`,
      });
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
  else {
    const sources = await sourcesOf(context, all);
    await context.out.write(all.map((each) => renderDescribe(context.out, { ...each, sources }, context.now())).join("\n"));
  }
  return 0;
};
