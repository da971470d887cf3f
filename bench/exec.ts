// A command in a sandbox through every door of the gateway against a bare docker exec, and a tool's launcher against a bare program.
import { Agent, request } from "node:http";
import { join } from "node:path";
import type Dockerode from "dockerode";
import type { Gateway } from "../test/gateway.ts";
import { agentName, type Fleet, stackOf } from "./fleet.ts";
import { atMost, interleaved, type Line, timed } from "./measure.ts";

const NAME = agentName(0);

interface Answer {
  readonly exitCode: number;
  readonly content: readonly { readonly text: string }[];
}

/** Asks on one connection that stays open, as a program that calls often does. */
function caller(gateway: Gateway): { exec(command: string): Promise<Answer>; close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const socketPath = join(gateway.home, "beige.sock");
  const exec = (command: string): Promise<Answer> =>
    new Promise((done, fail) => {
      const body = JSON.stringify({ command });
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const sent = request({ socketPath, agent, method: "POST", path: `/api/agents/${NAME}/exec`, headers }, (said) => {
        let text = "";
        said.on("data", (part: Buffer) => (text += part.toString()));
        said.on("end", () => {
          const answer = JSON.parse(text) as Answer;
          if (said.statusCode === 200 && answer.exitCode === 0) done(answer);
          else fail(new Error(`exec ${command}: ${said.statusCode} ${text}`));
        });
      });
      sent.on("error", fail);
      sent.end(body);
    });
  return { exec, close: () => agent.destroy() };
}

/** What nobody can do without: create, start, read to the end, and the exit code. */
async function bareExec(container: Dockerode.Container): Promise<void> {
  const exec = await container.exec({ Cmd: ["true"], AttachStdout: true, AttachStderr: true });
  const stream = await exec.start({ hijack: true, stdin: false });
  stream.resume();
  await new Promise((done, fail) => stream.once("end", done).once("error", fail));
  const { ExitCode } = await exec.inspect();
  if (ExitCode !== 0) throw new Error(`docker exec true: ${ExitCode}`);
}

async function coreExec(fleet: Fleet, container: Dockerode.Container): Promise<Line> {
  const door = caller(fleet.gateway);
  try {
    const pair = await interleaved(
      { turns: 120, warmUp: 8 },
      () => timed(() => door.exec("true")),
      () => timed(() => bareExec(container)),
    );
    return atMost({ line: "core exec of true through the API", unit: "ms", limit: 1.15, note: "floor: docker exec, read, inspect" }, pair);
  } finally {
    door.close();
  }
}

const CALLS = 200;
const loop = (command: string): string => `i=0; while [ $i -lt ${CALLS} ]; do ${command}; i=$((i+1)); done`;

/** Milliseconds for one run of `command` in a shell's loop inside, with the loop's own time taken off. */
async function oneInside(door: ReturnType<typeof caller>, command: string): Promise<number> {
  const whole = await timed(() => door.exec(loop(`${command} >/dev/null || exit 9`)));
  const empty = await timed(() => door.exec(loop(":")));
  return (whole - empty) / CALLS;
}

async function launcher(fleet: Fleet): Promise<Line> {
  const door = caller(fleet.gateway);
  try {
    await door.exec("memory save one 'a note'");
    const pair = await interleaved(
      { turns: 7, warmUp: 1 },
      () => oneInside(door, "memory list"),
      () => oneInside(door, "/bin/true"),
    );
    const note = `floor: fork+exec of /bin/true; a turn is ${CALLS} of them`;
    return atMost({ line: "launcher call inside (memory list)", unit: "us", limit: 3, scale: 1000, note }, pair);
  } finally {
    door.close();
  }
}

export async function execution(fleet: Fleet): Promise<readonly Line[]> {
  await fleet.gateway.apply(stackOf([NAME]));
  const found = await fleet.docker.listContainers({ filters: { label: [`beige.dev/name=${NAME}`] } });
  const mine = found.find(({ Id }) => fleet.gateway.containers().includes(Id));
  if (mine === undefined) throw new Error(`no container of ${NAME}`);
  return [await coreExec(fleet, fleet.docker.getContainer(mine.Id)), await launcher(fleet)];
}
