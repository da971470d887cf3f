// beige doctor: whether this machine can run agents, and the command that mends what is wrong.
import { existsSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { engineLacks, type EngineSays } from "../../core/lacks.ts";
import type { SandboxCheck } from "../../core/sandbox.ts";
import { createClient } from "../client.ts";
import { type Context, type Input, type Run, word } from "../flags.ts";
import { health } from "../gateway.ts";
import { oneLine } from "../output.ts";
import { count } from "../render/plan.ts";
import { ascii } from "../render/values.ts";
import { socketOf } from "../place.ts";
import { warmFindings } from "../warm.ts";
import { verifyFiles } from "./audit.ts";

export interface Finding {
  readonly name: string;
  readonly state: "ok" | "warning" | "problem";
  readonly message: string;
  readonly fix?: string;
}

const FREE_MIN_BYTES = 1024 ** 3;

function node(): Finding {
  const major = Number(process.versions.node.split(".")[0]);
  const message = process.versions.node;
  return major >= 24 ? { name: "node", state: "ok", message } : { name: "node", state: "problem", message, fix: "install Node 24" };
}

function home(context: Context): readonly Finding[] {
  const found: Finding[] = [];
  const longest = Buffer.byteLength(join(context.home, "run/0123456789/gateway.sock"));
  if (longest > 107) {
    found.push({
      name: "socket path",
      state: "problem",
      message: `${longest} bytes, limit 107: agents cannot start`,
      fix: "export BEIGE_HOME=/a/shorter/folder",
    });
  }
  const stat = statSync(context.home, { throwIfNoEntry: false });
  if (stat === undefined) return [...found, { name: "home", state: "ok", message: `${context.home} (not made yet)` }];
  if ((stat.mode & 0o077) !== 0)
    found.push({ name: "home", state: "warning", message: `${context.home} is open to other users`, fix: `chmod 700 ${context.home}` });
  else found.push({ name: "home", state: "ok", message: context.home });
  const { bavail, bsize } = statfsSync(context.home);
  const free = bavail * bsize;
  const message = `${(free / 1024 ** 3).toFixed(1)} GiB free`;
  found.push(
    free < FREE_MIN_BYTES
      ? { name: "disk", state: "warning", message, fix: "free some space: every call is written to the audit first" }
      : { name: "disk", state: "ok", message },
  );
  return found;
}

export const dockerSocket = (env: NodeJS.ProcessEnv): string =>
  env["DOCKER_HOST"]?.startsWith("unix://") === true ? env["DOCKER_HOST"].slice(7) : "/var/run/docker.sock";

/** What stands between an agent and this machine, as far as the engine says. */
export function protection(info: EngineSays): readonly Finding[] {
  const lacks = engineLacks(info);
  const missing = lacks.filter((each) => each !== "live-restore");
  return [
    lacks.includes("live-restore")
      ? {
          name: "live-restore",
          state: "warning",
          message: "is off: sandboxes end with a restart of the engine, and their commands are told as lost",
          fix: '/etc/docker/daemon.json: "live-restore": true   then reload the engine',
        }
      : { name: "live-restore", state: "ok", message: "commands outlive a restart of the engine" },
    missing.length === 0
      ? { name: "protection", state: "ok", message: "this host gives all layers" }
      : {
          name: "protection",
          state: "warning",
          message: `this host cannot give ${missing.map(oneLine).join(", ")}`,
          fix: "beige doctor --sandbox AGENT says what holds without it, and what brings it",
        },
  ];
}

async function docker(context: Context): Promise<readonly Finding[]> {
  const socket = dockerSocket(context.env);
  const client = createClient(socket, context.signal);
  try {
    const { Version } = await client.get<{ Version: string }>({ path: "/version", idleMs: 5_000 });
    const info = await client.get<EngineSays>({ path: "/info", idleMs: 5_000 });
    const images = await Promise.all(
      ["beige-sandbox:latest", "beige-base:1"].map(async (image) =>
        (await client.ask({ path: `/images/${image}/json`, idleMs: 5_000 })).status === 200 ? image : undefined,
      ),
    );
    const present = images.filter((image) => image !== undefined);
    return [
      { name: "docker", state: "ok", message: `${oneLine(Version)} at ${socket}` },
      present.length > 0
        ? { name: "images", state: "ok", message: present.join(", ") }
        : { name: "images", state: "warning", message: "none of ours is on the engine", fix: "sh sandbox/engine.sh ensure" },
      ...protection(info),
    ];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (/permission denied/.test(message))
      return [
        {
          name: "docker",
          state: "problem",
          message: `${socket}: permission denied`,
          fix: "sudo usermod -aG docker $USER   then sign in again",
        },
      ];
    return [
      {
        name: "docker",
        state: "problem",
        message: `nothing answers at ${socket}`,
        fix: existsSync("sandbox/engine.sh") ? "sh sandbox/engine.sh ensure" : "install and start Docker, or set DOCKER_HOST=unix:///path",
      },
    ];
  }
}

async function gateway(context: Context): Promise<readonly Finding[]> {
  const seen = await health(context.home, context.signal);
  if (!seen.up)
    return [{ name: "gateway", state: "warning", message: `none answers at ${socketOf(context.home)}`, fix: "beige gateway start" }];
  const engine = seen.body?.["engine"];
  if (typeof engine === "string" && engine !== "ok")
    return [
      {
        name: "gateway",
        state: "warning",
        message: `is up, but its engine does not answer: ${oneLine(engine)}`,
        fix: "beige doctor shows the engine; the gateway recovers by itself",
      },
    ];
  return [{ name: "gateway", state: "ok", message: seen.settled ? "is up" : "is starting" }, ...warmFindings(seen.body)];
}

async function policy(context: Context): Promise<readonly Finding[]> {
  const path = join(context.home, "host.yaml");
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return [];
  if ((stat.mode & 0o077) !== 0)
    return [{ name: "host.yaml", state: "problem", message: "can be read or written by others: it is not used", fix: `chmod 600 ${path}` }];
  const { readHost } = await import("../hostfile.ts");
  try {
    return [{ name: "host.yaml", state: "ok", message: count(readHost(context.home).secrets.length, "secret") }];
  } catch (error) {
    return [
      { name: "host.yaml", state: "problem", message: error instanceof Error ? error.message : String(error), fix: "beige secret list" },
    ];
  }
}

async function audit(context: Context, input: Input): Promise<readonly Finding[]> {
  if (!existsSync(join(context.home, "logs/audit.jsonl"))) return [];
  const verified = await verifyFiles(context, { ...input, flags: {} });
  if (verified.ok) return [{ name: "audit", state: "ok", message: `verified to row ${verified.head.seq}` }];
  return [{ name: "audit", state: "problem", message: oneLine(verified.problem ?? "broken"), fix: "beige audit verify" }];
}

export const findings = async (context: Context, input: Input): Promise<readonly Finding[]> => [
  node(),
  ...home(context),
  ...(await docker(context)),
  ...(await gateway(context)),
  ...(await policy(context)),
  ...(await audit(context, input)),
];

/** A rule that does not hold is a warning: something else may stand in its place, and the rule says what is to be done. */
async function sandbox(context: Context, agent: string): Promise<readonly Finding[]> {
  const path = `/api/agents/${encodeURIComponent(agent)}/checks`;
  const { items } = await context.client.get<{ readonly items: readonly SandboxCheck[] }>({ path });
  return items.map(({ rule, title, state, why, fix }) => ({
    name: oneLine(/^\d/.test(rule) ? `CIS ${rule}` : rule),
    state,
    message: oneLine(`${title}: ${why}`),
    ...(fix === undefined ? {} : { fix: oneLine(fix) }),
  }));
}

export const run: Run = async (context, input) => {
  const agent = word(input, "sandbox");
  const found = agent === undefined ? await findings(context, input) : await sandbox(context, agent);
  const of = (state: Finding["state"]): number => found.filter((each) => each.state === state).length;
  if (word(input, "output") === "json")
    await context.out.write(`${JSON.stringify({ ok: of("problem") === 0, findings: found }, undefined, 2)}\n`);
  else {
    const marks = {
      ok: context.out.paint("green", "✔"),
      warning: context.out.paint("yellow", "!"),
      problem: context.out.paint("red", "✖"),
    };
    const lines = found.map(
      (each) => `[${marks[each.state]}] ${each.name.padEnd(12)} ${each.message}${each.fix === undefined ? "" : `\n    fix: ${each.fix}`}`,
    );
    await context.out.write(
      ascii(context.out, `${lines.join("\n")}\n${of("ok")} ok, ${count(of("warning"), "warning")}, ${count(of("problem"), "problem")}\n`),
    );
  }
  return of("problem") > 0 ? 1 : 0;
};
