// Uses everything once, well and badly, and hands all that it says to the search.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until, type Gateway } from "../../gateway.ts";
import type { Search } from "./search.ts";
import { stackText, type Addresses } from "./stack.ts";

export interface Scene {
  readonly gateway: Gateway;
  readonly search: Search;
  readonly addresses: Addresses;
}

const verbs = (file: string): readonly (readonly [string, readonly string[]])[] => [
  ["validate", ["validate", "-f", file]],
  ["plan", ["diff", "-f", file, "-o", "json"]],
  ["plan", ["diff", "-f", file]],
  ["plan", ["diff", "-f", file, "-o", "markdown"]],
  ["plan", ["diff", "-f", file, "--against", file]],
  ["plan", ["apply", "-f", file, "--dry-run", "-o", "json"]],
  ["apply", ["apply", "-f", file]],
  ["apply", ["apply", "-f", file, "-o", "json"]],
  ...["agents", "providers", "plugins", "schedules"].flatMap((kind) =>
    ["yaml", "json", "wide", "name"].map(
      (format) => [`get ${kind}`, ["get", kind, "-o", format, ...(format === "json" ? ["--show-managed-fields"] : [])]] as const,
    ),
  ),
  ["describe agent alice", ["describe", "agent/alice"]],
  ["describe agent mallory", ["describe", "agent/mallory", "-o", "json"]],
  ["describe provider good", ["describe", "provider/good"]],
  ["describe provider bad", ["describe", "provider/bad", "-o", "json"]],
  ["describe plugin", ["describe", "plugin/leaky"]],
  ["describe plugin", ["describe", "plugin/leaky", "-o", "json"]],
];

const afterwards: readonly (readonly [string, readonly string[]])[] = [
  ["events", ["events", "--limit", "1000"]],
  ["events", ["events", "-o", "json", "--limit", "1000"]],
  ["logs", ["logs", "--tail", "5000"]],
  ["logs", ["gateway", "logs", "--tail", "5000"]],
  ["logs", ["logs", "alice"]],
  ["audit", ["audit", "tail", "-n", "1000", "--all"]],
  ["audit", ["audit", "tail", "-n", "1000", "-o", "json"]],
  ["audit", ["audit", "tail", "-n", "1000", "--chain", "control", "-o", "json"]],
  ["audit", ["audit", "verify"]],
  ["doctor", ["doctor"]],
  ["doctor", ["doctor", "-o", "json"]],
  ["status", ["gateway", "status", "-o", "json"]],
  ["status", ["version", "--gateway"]],
  ["secret list", ["secret", "list"]],
  ["secret list", ["secret", "list", "-o", "json"]],
];

async function cli(scene: Scene, place: string, args: readonly string[]): Promise<void> {
  const ran = await scene.gateway.beige(...args);
  assert.ok(ran.code !== 70, `${args.join(" ")}: ${ran.err}`);
  scene.search.look(`beige ${place}`, ran.out);
  scene.search.look(`beige ${place}`, ran.err);
}

/** Turns that go well, are refused, break off and call tools; by the command line and by the API. */
async function prompts(scene: Scene): Promise<void> {
  const { gateway, search } = scene;
  const said: string[] = [];
  const texts = { alice: ["hello", "fail-500", "fail-404", "fail-cut", "use-tool", "boom"], mallory: ["hello", "long", "boom"] };
  for (const [agent, list] of Object.entries(texts)) {
    for (const text of list) {
      const lines = await gateway.stream(`/api/agents/${agent}/prompt`, { text, fresh: text === "hello" });
      said.push(JSON.stringify(lines));
      search.look(`prompt of ${agent}`, JSON.stringify(lines));
    }
    await cli(scene, `prompt of ${agent}`, ["prompt", agent, "fail-500 again", "--new"]);
    await cli(scene, `prompt of ${agent}`, ["prompt", agent, "hello again", "--session", "cli:other"]);
  }
  const all = said.join("\n");
  assert.match(all, /"fine"/, "a turn goes well");
  assert.match(all, /Incorrect API key provided: \[secret\]/, "the refusal is shown without the key");
  assert.match(all, /guard has no use for \[secret\]/, "the guard's words are shown without the secret");
  assert.match(all, /the tool has answered/, "the tool was called");
}

/** The tool of the plugin, by the API and from inside; a resolved secret as argument. */
async function calls(scene: Scene): Promise<void> {
  const { gateway, search } = scene;
  const { argv } = search.values;
  const verbsOf = [
    ["say"],
    ["bytes"],
    ["base64"],
    ["hex"],
    ["fail"],
    ["long", "512"],
    ["long", "1024"],
    ["long", "2048"],
    ["long", "4096"],
    ["stderr"],
    ["log", "512"],
    ["log", "4096"],
    ["boom"],
    ["with", argv],
    [`--password=${argv}`],
    [JSON.stringify({ argv })],
    [Buffer.from(argv).toString("base64")],
  ];
  for (const args of verbsOf) {
    const { body } = await gateway.request("POST", "/api/agents/alice/exec", { tool: "vault", args });
    search.look("exec of a plugin tool", JSON.stringify(body));
  }
  const quoted = `'${argv.replaceAll("'", "'\\''")}'`;
  const commands = [
    `: ${quoted}`,
    "vault say; vault bytes; vault fail; vault boom",
    "env; cat /proc/*/environ; cat /proc/*/cmdline; ls -laR /beige /tools; cat /tools/packages/*/*; cat /beige/* 2>&1",
    "for f in /proc/[0-9]*/fd/*; do readlink $f; done",
    "cat /etc/hosts /etc/resolv.conf /etc/hostname /proc/mounts /proc/self/mountinfo",
    "find / -xdev -type f -size -200k -exec cat {} + 2>/dev/null",
  ];
  for (const command of commands) {
    for (const agent of ["alice", "mallory"]) {
      const { body } = await gateway.request("POST", `/api/agents/${agent}/exec`, { command });
      search.look(`exec of ${agent}`, JSON.stringify(body));
    }
  }
  await cli(scene, "exec", ["exec", "mallory", "--", "vault", "say"]);
  await cli(scene, "exec", ["exec", "mallory", "--", "vault", "boom"]);
}

const API = [
  "/api/health",
  "/api/agents",
  "/api/agents/mallory",
  "/apis",
  "/apis/beige.dev/v1",
  "/api/events",
  "/openapi/v2",
  "/openapi/v3",
  "/version",
  "/apis/beige.dev/v1/plugins",
  "/apis/beige.dev/v1/plugins/leaky",
  "/apis/beige.dev/v1/providers/bad",
  "/apis/beige.dev/v1/namespaces/default/agents/mallory",
  "/nothing",
  "/api/agents/nobody",
];

async function api(scene: Scene): Promise<void> {
  const { gateway, search } = scene;
  for (const path of API) {
    const { status, body } = await gateway.request("GET", path);
    search.look(`GET ${path}`, JSON.stringify({ status, body }));
  }
  const secretless = await gateway.request("PUT", "/apis/beige.dev/v1/providers/bad", {
    apiVersion: "beige.dev/v1",
    kind: "Provider",
    metadata: { name: "bad" },
    spec: { api: "openai-completions", apiKey: { literal: "x" } },
  });
  search.look("PUT of a wrong provider", JSON.stringify(secretless.body));
}

/** The door for other programs: the token as it should be, and wherever somebody may put it. */
async function door(scene: Scene): Promise<void> {
  const { gateway, search } = scene;
  const { apiToken } = search.values;
  const url = /"url":"(http[^"]+)"/.exec(readFileSync(join(gateway.home, "logs/gateway.log"), "utf8"))?.[1];
  assert.ok(url !== undefined, "the gateway listens");
  const tries: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ["/api/agents", { authorization: `Bearer ${apiToken}` }],
    [`/api/${encodeURIComponent(apiToken)}`, { authorization: `Bearer ${apiToken}` }],
    ["/api/agents", { authorization: `Bearer ${apiToken}x` }],
    ["/api/agents", { authorization: `Basic ${Buffer.from(`user:${apiToken}`).toString("base64")}` }],
    [`/api/agents?token=${apiToken}`, {}],
    ["/api/agents", { origin: `http://${apiToken}.example`, authorization: `Bearer ${apiToken}` }],
  ];
  const statuses: number[] = [];
  for (const [path, headers] of tries) {
    const answer = await fetch(url + path, { headers });
    statuses.push(answer.status);
    const text = `${JSON.stringify([...answer.headers])} ${await answer.text()}`;
    // A path that names it is repeated to the one who sent it.
    search.look("answers on the port", path.includes(apiToken) ? text.replaceAll(apiToken, "") : text);
  }
  assert.deepEqual([statuses[0], statuses[2], statuses[3], statuses[4], statuses[5]], [200, 401, 401, 401, 403], "only the token opens");
}

/** A plugin that dies with its secrets on its lips, and one that cannot start because of them. */
async function failures(scene: Scene): Promise<void> {
  const { gateway, search, addresses } = scene;
  const look = async (reason: RegExp): Promise<void> => {
    await until(
      async () => reason.test((await gateway.request("GET", "/apis/beige.dev/v1/plugins/leaky")).body.status.conditions[0].message),
      20_000,
      `the plugin fails: ${reason}`,
    );
    await cli(scene, "describe plugin", ["describe", "plugin/leaky"]);
    await cli(scene, "get plugins", ["get", "plugins", "-o", "json"]);
    await cli(scene, "describe agent mallory", ["describe", "agent/mallory"]);
    const { body } = await gateway.request("POST", "/api/agents/mallory/exec", { command: "true" });
    search.look("exec of mallory", JSON.stringify(body));
  };
  const died = await gateway.request("POST", "/api/agents/mallory/exec", { tool: "vault", args: ["die"] });
  search.look("exec of a plugin tool", JSON.stringify(died.body));
  await look(/its process ended/);
  writeFileSync(join(addresses.folder, "leaky/explode"), "");
  await cli(scene, "apply", ["apply", "-f", join(gateway.home, "stack.yaml"), "--timeout", "5s"]);
  await look(/cannot start with \[secret\]/);
}

/** Things that go wrong after the start: secrets that move, and a plugin that fails. */
async function changes(scene: Scene): Promise<void> {
  const { gateway, search, addresses } = scene;
  const moved = stackText(addresses, search.values)
    .replace("{secret: token}", "{secret: absent}")
    .replace("apiKey: {secret: bad}", "apiKey: {secret: file}");
  const file = join(gateway.home, "moved.yaml");
  writeFileSync(file, moved);
  await cli(scene, "plan", ["diff", "-f", file]);
  await cli(scene, "apply", ["apply", "-f", file, "--timeout", "3s"]);
  await cli(scene, "describe plugin", ["describe", "plugin/leaky"]);
  await cli(scene, "describe provider bad", ["describe", "provider/bad"]);
  await cli(scene, "prompt of mallory", ["prompt", "mallory", "hello", "--new"]);
  writeFileSync(file, stackText(addresses, search.values));
  await cli(scene, "apply", ["apply", "-f", file]);
}

export async function drive(scene: Scene): Promise<void> {
  const { gateway, addresses, search } = scene;
  const file = join(gateway.home, "stack.yaml");
  writeFileSync(file, stackText(addresses, search.values));
  search.look(
    "plan",
    JSON.stringify(
      await gateway.stream("/api/apply", {
        files: [{ name: "stack.yaml", folder: gateway.home, text: stackText(addresses, search.values), vars: {}, files: {} }],
        set: "default",
        dryRun: true,
        forceConflicts: false,
        prune: false,
        wait: false,
        timeoutMs: 1000,
      }),
    ),
  );
  const applied = await gateway.beige("apply", "-f", file);
  assert.equal(applied.code, 0, applied.out + applied.err);
  search.look("beige apply", applied.out + applied.err);
  await prompts(scene);
  await calls(scene);
  for (const [place, args] of verbs(file)) await cli(scene, place, args);
  await api(scene);
  await changes(scene);
  await door(scene);
  await failures(scene);
  for (const [place, args] of afterwards) await cli(scene, place, args);
}
