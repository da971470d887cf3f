// Images that were built with packages and that no container has.
import { DERIVED_LABEL, isDerived, readDerived } from "../../core/packages.ts";
import { createClient } from "../client.ts";
import type { Context } from "../flags.ts";
import type { Orphan } from "./orphans.ts";

interface Listed {
  readonly Id: string;
  readonly RepoTags?: readonly string[] | null;
  readonly Labels?: Readonly<Record<string, string>> | null;
}

/** None where the engine does not tell of images: what matters has been asked before. */
export async function imagesOf(context: Context, socket: string): Promise<readonly Orphan[]> {
  const ask = <T>(path: string): Promise<readonly T[]> =>
    createClient(socket, context.signal)
      .get<readonly T[]>({ path, idleMs: 15_000 })
      .catch(() => []);
  const filters = encodeURIComponent(JSON.stringify({ label: [DERIVED_LABEL] }));
  const images = await ask<Listed>(`/images/json?filters=${filters}`);
  if (images.length === 0) return [];
  const used = new Set((await ask<{ readonly ImageID?: string }>("/containers/json?all=1")).map((box) => box.ImageID));
  return images.flatMap(({ Id, RepoTags, Labels }) => {
    const name = RepoTags?.find(isDerived);
    if (name === undefined || used.has(Id)) return [];
    const packages = readDerived(Labels?.[DERIVED_LABEL])?.packages ?? [];
    return [{ what: "image", name, agent: "-", state: packages.join(", "), why: `no container has it: docker rmi ${name}` }];
  });
}
