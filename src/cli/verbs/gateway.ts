// beige gateway and beige up: start, stop and look at the process that runs the agents.
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Input, on, type Run, word } from "../flags.ts";
import {
  daemonArgs,
  daemonEnv,
  health,
  NODE_FLAGS,
  runningPid,
  startGateway,
  type StartOptions,
  stopGateway,
  writePid,
} from "../gateway.ts";
import { oneLine } from "../output.ts";
import { valueText } from "../render/values.ts";
import { warmText } from "../warm.ts";
import { daemonFile, socketOf, version } from "../place.ts";

const doors = (input: Input): Pick<StartOptions, "listen" | "kubeListen"> => {
  const [listen, kubeListen] = [word(input, "listen"), word(input, "kube-listen")];
  return { ...(listen !== undefined && { listen }), ...(kubeListen !== undefined && { kubeListen }) };
};

function options(input: Input): StartOptions {
  return {
    schedules: on(input, "schedules"),
    timeoutMs: milliseconds(word(input, "timeout") ?? "60s", "--timeout"),
    ...doors(input),
  };
}

export const start: Run = async (context, input) => {
  const seen = await health(context.home, context.signal);
  if (seen.up) {
    await context.out.write(`gateway is running already: ${socketOf(context.home)}\n`);
    if (on(input, "schedules") && seen.body?.["schedules"] === false)
      context.out.note("its schedules do not fire: beige gateway restart --schedules");
    const kube = word(input, "kube-listen");
    if (kube !== undefined && seen.body?.["kube"] === undefined)
      context.out.note(`it has no door for kubectl: beige gateway restart --kube-listen ${kube}`);
    return 0;
  }
  const wanted = options(input);
  const { pid, settled } = await startGateway(context, wanted);
  const fires = wanted.schedules ? "schedules fire" : "schedules do not fire (--schedules turns them on)";
  await context.out.write(
    `gateway started: process ${pid}, ${socketOf(context.home)}; ${fires}${settled ? "" : "; it is still looking at its objects"}\n`,
  );
  const warning = (await health(context.home, context.signal)).body?.["warning"];
  if (typeof warning === "string") context.out.note(`warning: ${oneLine(warning)}`);
  return 0;
};

export const stop: Run = async (context, input) => {
  const was = await stopGateway(context, milliseconds(word(input, "timeout") ?? "30s", "--timeout"));
  await context.out.write(was ? "gateway stopped; sandboxes stay\n" : "no gateway is running\n");
  return 0;
};

export const restart: Run = async (context, input) => {
  // What was not said stays as it was.
  const { body } = await health(context.home, context.signal);
  const fired = body?.["schedules"] === true;
  const kube = typeof body?.["kube"] === "string" ? /:(\d+)$/.exec(body["kube"])?.[1] : undefined;
  await stopGateway(context, 30_000);
  const wanted = { ...(kube !== undefined && { kubeListen: kube }), ...options(input) };
  const { pid } = await startGateway(context, { ...wanted, schedules: wanted.schedules || fired });
  await context.out.write(`gateway restarted: process ${pid}\n`);
  return 0;
};

export const status: Run = async (context, input) => {
  const seen = await health(context.home, context.signal);
  const pid = runningPid(context.home);
  const said = {
    running: seen.up,
    ...(pid !== undefined && { pid }),
    home: context.home,
    socket: socketOf(context.home),
    cli: version(),
    ...seen.body,
  };
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify(said, undefined, 2)}\n`);
  else if (seen.up) {
    const rows = Object.entries({ ...said, warm: warmText(seen.body) }).filter(([key, value]) => key !== "running" && value !== undefined);
    await context.out.write(
      `gateway ${seen.settled ? "is running" : "is starting"}\n${rows.map(([key, value]) => `  ${key.padEnd(16)} ${valueText(value, 200)}\n`).join("")}`,
    );
  } else if (seen.error) throw seen.error;
  return seen.up ? 0 : 5;
};

/** The foreground: this process becomes the gateway, so that a supervisor and Ctrl-C meet one process. */
export const up: Run = async (context, input) => {
  const seen = await health(context.home, context.signal);
  if (seen.up) throw new BeigeError("conflict", `a gateway is running for ${context.home} already`, { hint: "beige gateway stop" });
  const schedules = !on(input, "no-schedules");
  const args = [...NODE_FLAGS, daemonFile(), ...daemonArgs({ schedules, ...doors(input) })];
  context.out.note(
    `gateway of ${context.home} in the foreground; ${schedules ? "schedules fire" : "schedules do not fire"}; Ctrl-C stops it, sandboxes stay`,
  );
  if (context.signal.aborted) return 130;
  writePid(context.home, process.pid);
  process.execve?.(process.execPath, [process.execPath, ...args], clean(daemonEnv(context, false)));
  throw new BeigeError("unavailable", "this system cannot hand a process over", { hint: "beige gateway start" });
};

const clean = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])));
