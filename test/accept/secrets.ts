// Twelve values are planted, everything is used, and each value is then looked for in every place where it does not belong.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { logTail, makeGateway } from "../gateway.ts";
import { drive } from "./secrets/drive.ts";
import { startProvider } from "./secrets/provider.ts";
import { Search, searchContainer, searchHome, searchProcesses } from "./secrets/search.ts";
import { plantHost } from "./secrets/stack.ts";
import { makeValues, NAMES, type Name } from "./secrets/values.ts";

/** A manifest is shown to whoever may read manifests: the operator. */
const MANIFEST = ["store", "plan", "beige plan", "beige apply", "home/stack.yaml", "home/moved.yaml"];

/** Where each value may be, and nowhere else. */
const MAY: Readonly<Record<Name, readonly string[]>> = {
  // The daemon's own environment, which nothing but the gateway reads.
  daemonEnv: [],
  // Its own file; the plugin that the manifest gives it to has it in memory.
  envFile: ["home/env"],
  // A file outside BEIGE_HOME that is not searched.
  hostFile: [],
  pluginSecret: ["home/env"],
  providerKey: ["home/env"],
  // Part of a manifest, so of what shows that manifest; an address in the clear is no place for a secret, but it goes no further.
  baseUrl: [...MANIFEST, "beige get providers", "beige describe provider good"],
  refusal: ["home/env"],
  hookError: ["home/env"],
  // Desired state, and the prompt of the agent's own session.
  instructions: [...MANIFEST, "beige get agents", "beige describe agent alice", "GET /api/agents", "session of alice"],
  // A command that is told a value has it in its own arguments while it runs.
  argv: ["home/env", "command lines"],
  apiToken: ["home/token"],
  cliVariable: [],
};

export async function secrets(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "beige-planted-"));
  const wire = await startProvider();
  const values = { ...makeValues("") };
  // The command line has its variable, the gateway does not.
  const gateway = makeGateway({ env: { PLANT_CLI: values.cliVariable, BEIGE_LISTEN: "0" } });
  let watching: NodeJS.Timeout | undefined;
  try {
    plantHost(gateway.home, folder, values);
    await gateway.start({ PLANT_CLI: "", PLANT_DAEMON: values.daemonEnv });
    const search = new Search({ ...values, apiToken: readFileSync(join(gateway.home, "token"), "utf8").trim() });
    const looked = (): void => searchProcesses(search, gateway.pid());
    watching = setInterval(looked, 150);
    await drive({ gateway, search, addresses: { origin: new URL(wire.url).origin, folder } });
    clearInterval(watching);
    looked();
    for (const id of gateway.containers()) searchContainer(search, id);
    searchHome(search, gateway.home);
    await gateway.stop();
    searchHome(search, gateway.home);
    const wrong = search.found.filter(({ value, place }) => !MAY[value].includes(place));
    assert.deepEqual(wrong, [], "a value is where it does not belong");
    // The search finds what is there: each value that has a place of its own was seen in it.
    for (const name of NAMES.filter((each) => MAY[each].length > 0))
      assert.ok(
        search.found.some(({ value }) => value === name),
        `${name} was planted`,
      );
    return `${NAMES.length} values, ${search.places.size} sorts of places, ${Math.round(search.bytes / 1e6)} MB searched`;
  } catch (error) {
    if (error instanceof Error) error.message += `\nlog: ${logTail(gateway).slice(-1500)}`;
    throw error;
  } finally {
    clearInterval(watching);
    await gateway.clean();
    await wire[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  }
}
