// Plugin: code that brings tools and hooks into the gateway; the failure of one is its own.
import pluginSchema from "../../schemas/plugin.json" with { type: "json" };
import { defineKind } from "../../src/core/kind.ts";
import type { Plugin } from "../../src/core/resource.ts";
import { actPlugin, observePlugin, pluginNames } from "./observe.ts";
import { checkPlugin } from "./check.ts";
import { pluginColumns } from "./columns.ts";
import { planPlugin, type PluginAction, type PluginFacts } from "./plan.ts";

export const pluginKind = defineKind<Plugin, PluginFacts, PluginAction>({
  kind: "Plugin",
  plural: "plugins",
  short: ["pl"],
  scope: "Cluster",
  schema: pluginSchema,
  columns: pluginColumns,
  finalizer: "beige.dev/plugin",
  needs: () => [],
  check: checkPlugin,
  names: pluginNames,
  observe: observePlugin,
  plan: planPlugin,
  act: actPlugin,
});
