// docker-compose with twenty containers that are up already, against the command line with the same twenty as agents.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { arch, tmpdir } from "node:os";
import { join } from "node:path";
import { AGENTS, atEnd, type Fleet, IMAGE, stackOf, names } from "./fleet.ts";
import { interleaved, type Line, runProgram, timed } from "./measure.ts";

const LIMIT = 4;
const GUEST = { x64: "beige-guest-x64", arm64: "beige-guest-arm64" } as const;

type Words = readonly [command: string, ...words: string[]];

/** The older program by its own name, or the newer one inside Docker's. */
const found = (): Words | undefined =>
  ([["docker-compose"], ["docker", "compose"]] as const).find(
    ([command, ...words]) => spawnSync(command, [...words, "version"], { stdio: "ignore" }).status === 0,
  );

/** As an agent's container is made, as far as a compose file says it: same image, same process, same limits, no network. */
function serviceOf(program: string): object {
  const guest = join(program, "dist/sandbox/guest/bin", GUEST[arch() === "arm64" ? "arm64" : "x64"]);
  return {
    image: IMAGE,
    entrypoint: ["/beige/tool-client"],
    command: ["init"],
    user: "1000:1000",
    stdin_open: true,
    read_only: true,
    network_mode: "none",
    cap_drop: ["ALL"],
    security_opt: ["no-new-privileges"],
    mem_limit: "64m",
    cpus: 1,
    pids_limit: 64,
    volumes: [`${guest}:/beige/tool-client:ro`],
  };
}

/** Nothing where there is no docker-compose. */
export async function composeUp({ gateway, file, docker }: Fleet, program: string): Promise<readonly Line[]> {
  const compose = found();
  if (compose === undefined) {
    console.error("plane: not here: docker-compose; its up of 20 containers is not measured");
    return [];
  }
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-compose-"));
  const [command, ...words] = compose;
  const services = Object.fromEntries(Array.from({ length: AGENTS }, (_, i) => [`one-${i}`, serviceOf(program)]));
  writeFileSync(join(folder, "docker-compose.yml"), JSON.stringify({ version: "2.4", services }));
  const env = { ...process.env, COMPOSE_HTTP_TIMEOUT: "120" };
  const project = `beigebench${process.pid}`;
  const run = (...more: string[]): Promise<void> =>
    runProgram(command, [...words, "-f", join(folder, "docker-compose.yml"), "-p", project, ...more], env);
  const ids = async (): Promise<readonly string[]> =>
    (await docker.listContainers({ filters: { label: [`com.docker.compose.project=${project}`] } })).map(({ Id }) => Id).toSorted();
  let over: Promise<void> | undefined;
  const end = (): Promise<void> => (over ??= run("down", "-t", "0").finally(() => rmSync(folder, { recursive: true, force: true })));
  atEnd.push(end);
  await gateway.apply(stackOf(names));
  await run("up", "-d");
  const before = await ids();
  const apply = [join(program, "bin/beige.cjs"), "apply", "-f", file];
  const beige = (): Promise<void> => runProgram(process.execPath, apply, { ...process.env, BEIGE_HOME: gateway.home, NO_COLOR: "1" });
  const pair = await interleaved(
    { turns: 9, warmUp: 3 },
    () => timed(() => run("up", "-d")),
    () => timed(beige),
  );
  const after = await ids();
  if (before.length !== AGENTS || after.join() !== before.join()) throw new Error("docker-compose up was no no-op");
  await end();
  const note = `${pair.turns} turns, ${pair.quiet.toFixed(2)}x in the quiet quarter; floor: beige apply of the same 20`;
  const { value, floor, ratio } = pair;
  const line = `${compose.join(" ")} up -d of 20 containers, nothing to do`;
  return [{ line, unit: "ms", value, floor, ratio, limit: LIMIT, least: true, met: ratio >= LIMIT, note }];
}
