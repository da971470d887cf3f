// References of manifests to objects that are not among them. They may live in the gateway already: a warning, unless the set is to stand alone.
import type { Problem } from "../core/errors.ts";
import type { Need } from "../core/kind.ts";
import type { ManifestDocument } from "../core/manifest.ts";
import { splitTool } from "../core/policy.ts";
import { nsName, refKey } from "../core/resource.ts";
import { nearest, pointer } from "../core/text.ts";

interface Named {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly document: ManifestDocument;
}

type Fields = Readonly<Record<string, unknown>>;
const fields = (value: unknown): Fields => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** A name that is no text is another problem's matter; one from a variable is known by then. */
const to = (kind: string, namespace: string, name: unknown, path: string): readonly Need[] =>
  typeof name === "string" && name !== "" ? [{ ref: { kind, namespace, name }, path }] : [];

function agentNeeds({ model, fallbacks, tools, plugins }: Fields): readonly Need[] {
  return [
    ...to("Provider", "", fields(model)["provider"], "/spec/model/provider"),
    ...list(fallbacks).flatMap((each, i) => to("Provider", "", fields(each)["provider"], `/spec/fallbacks/${i}/provider`)),
    ...list(tools).flatMap((tool, i) =>
      to("Plugin", "", typeof tool === "string" ? splitTool(tool).plugin : undefined, `/spec/tools/${i}`),
    ),
    ...Object.keys(fields(plugins)).flatMap((name) => to("Plugin", "", name, pointer(["spec", "plugins", name]))),
  ];
}

/** As each kind's own controller has it. */
export function needsOf({ kind, metadata, document }: Named): readonly Need[] {
  const spec = fields(fields(document.value)["spec"]);
  if (kind === "Agent") return agentNeeds(spec);
  return kind === "Schedule" ? to("Agent", metadata.namespace, spec["agent"], "/spec/agent") : [];
}

const LIVE = "it must be in the gateway already when this is applied; --strict refuses";

/** A warning each, with its place. */
export function looseReferences(documents: readonly ManifestDocument[]): readonly Problem[] {
  const objects = documents.flatMap((document): readonly Named[] =>
    document.ref === undefined ? [] : [{ kind: document.ref.kind, metadata: document.ref, document }],
  );
  const here = new Set(objects.map(({ document }) => document.ref).map((ref) => (ref === undefined ? "" : refKey(ref))));
  const names = new Map<string, string[]>();
  for (const { kind, metadata } of objects) {
    const key = `${kind} ${metadata.namespace}`;
    names.set(key, [...(names.get(key) ?? []), metadata.name]);
  }
  return objects.flatMap((object) =>
    needsOf(object)
      .filter(({ ref }) => !here.has(refKey(ref)))
      .map(({ ref, path }): Problem => {
        const near = nearest(ref.name, names.get(`${ref.kind} ${ref.namespace}`) ?? []);
        const at = object.document.at(path, path.startsWith("/spec/plugins/") ? "key" : "value");
        const line = object.document.line(at.line);
        return {
          message: `${ref.kind} "${nsName(ref.namespace, ref.name)}" is not among these manifests`,
          path,
          at,
          object: `${object.kind}/${object.metadata.name}`,
          hint: near === undefined ? LIVE : `did you mean "${near}"?`,
          ...(line !== undefined && { line }),
        };
      }),
  );
}
