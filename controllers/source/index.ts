// Source: a folder of manifests that is kept applied (GitOps).
import sourceSchema from "../../schemas/source.json" with { type: "json" };
import { defineKind } from "../../src/core/kind.ts";
import type { Source } from "../../src/core/resource.ts";
import { actSource } from "./act.ts";
import { checkSource } from "./check.ts";
import { sourceColumns } from "./columns.ts";
import { observeSource, sourceNames } from "./observe.ts";
import { planSource } from "./plan.ts";
import type { SourceAction, SourceSeen } from "./seen.ts";

export const sourceKind = defineKind<Source, SourceSeen, SourceAction>({
  kind: "Source",
  plural: "sources",
  short: ["src"],
  scope: "Cluster",
  schema: sourceSchema,
  columns: sourceColumns,
  finalizer: "beige.dev/source",
  needs: () => [],
  check: checkSource,
  names: sourceNames,
  observe: observeSource,
  plan: planSource,
  act: actSource,
});
