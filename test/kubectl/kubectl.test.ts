import { afterAll, beforeAll, describe, test } from "vitest";
import { kubectls, type Kubectl } from "./clients.ts";
import { BENCH_MS, bench, type Bench, type Shell } from "./rig.ts";
import { READING, WRITING, type Case } from "./verbs.ts";

const clients = kubectls();
const [oldest, newest] = [clients.at(0), clients.at(-1)];
const results = new Map<string, Map<string, string>>();
let at: Bench;

beforeAll(async () => {
  at = await bench();
  // What `logs` will show.
  await at.gateway.request("POST", "/api/agents/travel/exec", { command: "echo before" });
}, BENCH_MS);

afterAll(async () => {
  await at.end();
  console.log(table());
}, 30_000);

function table(): string {
  const versions = clients.map((each) => each.version);
  const rows = [...READING, ...WRITING].map(({ verb }) => [verb, ...versions.map((version) => results.get(verb)?.get(version) ?? "-")]);
  const width = Math.max(...rows.map(([verb = ""]) => verb.length));
  return [["verb", ...versions], ...rows]
    .map(([verb = "", ...cells]) => [verb.padEnd(width), ...cells.map((cell) => cell.padEnd(7))].join("  ").trimEnd())
    .join("\n");
}

const note = (verb: string, client: Kubectl, what: string): void => {
  results.set(verb, (results.get(verb) ?? new Map<string, string>()).set(client.version, what));
};

describe.each(clients.map((client) => [client.version, client] as const))("kubectl %s", (version, client) => {
  let shell: Shell;
  beforeAll(() => {
    shell = at.shell(client);
  });
  const whole = client === oldest || client === newest;
  const wanted = (each: Case): boolean => (whole || each.each === true) && client.minor >= (each.since ?? 0);
  for (const each of [...READING, ...WRITING].filter(wanted)) {
    test(each.verb, async () => {
      note(each.verb, client, "FAILED");
      const answer = await each.check(shell, `p-${version.replace(".", "-")}`);
      note(each.verb, client, answer === "refused" ? answer : "ok");
    });
  }
});
