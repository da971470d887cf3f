// kubectl's move from client-side to server-side apply, with a change on the way.
import { afterAll, beforeAll, expect, test } from "vitest";
import { kubectls } from "./clients.ts";
import { BENCH_MS, bench, type Bench, type Ran, type Shell } from "./rig.ts";

let at: Bench;
let shell: Shell;
beforeAll(async () => {
  at = await bench();
  shell = at.shell(kubectls().at(-1) as Shell["kubectl"]);
}, BENCH_MS);
afterAll(async () => at.end(), 30_000);

const provider = (concurrency: number, more = ""): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: mig, labels: {team: ops}}
spec:
  api: echo
  concurrency: ${concurrency}
${more}`;
const apply = (text: string, ...more: readonly string[]): Promise<Ran> => shell.run(["apply", "-f", shell.file("mig.yaml", text), ...more]);
const read = async (path: string): Promise<string> => (await shell.run(["get", "provider", "mig", "-o", `jsonpath={${path}}`])).out;
const managers = async (): Promise<readonly string[]> => (await read(".metadata.managedFields[*].manager")).split(" ").toSorted();

test("a server-side apply that changes a field takes over what client-side applies brought, once and for all", async () => {
  expect(await apply(provider(1, "  timeoutSeconds: 9\n"))).toMatchObject({ code: 0 });
  const moved = await apply(provider(2, "  timeoutSeconds: 9\n"), "--server-side");
  expect(moved).toMatchObject({ code: 0, err: "" });
  expect(await read(".spec.concurrency")).toBe("2");
  expect(await managers()).toEqual(["kubectl", "kubectl-last-applied"]);
  const again = await apply(provider(3), "--server-side", "-v=6");
  expect(again.code).toBe(0);
  expect(again.err.match(/PATCH/g)).toHaveLength(1);
  // What it named before and names no longer goes: it owns that now.
  expect(await read(".spec.timeoutSeconds")).not.toBe("9");
}, 60_000);

test("a client-side apply after it starts from what was applied last, whichever way", async () => {
  expect(await apply(provider(4, "  timeoutSeconds: 8\n"), "--server-side")).toMatchObject({ code: 0 });
  expect(await apply(provider(4))).toMatchObject({ code: 0 });
  expect(await read(".spec.timeoutSeconds")).not.toBe("8");
}, 60_000);

test("what another manager has changed since is in the way as ever", async () => {
  await shell.run(["delete", "provider", "mig"]);
  expect(await apply(provider(1))).toMatchObject({ code: 0 });
  const patch = ["patch", "provider", "mig", "--type=merge", "--field-manager=somebody", "-p", '{"spec":{"concurrency":7}}'];
  expect(await shell.run(patch)).toMatchObject({ code: 0 });
  const refused = await apply(provider(2), "--server-side");
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringMatching(/spec\.concurrency[\s\S]*somebody|somebody[\s\S]*spec\.concurrency/),
  });
  expect(await read(".spec.concurrency")).toBe("7");
  // Another name opts out, as with any server.
  await shell.run(["delete", "provider", "mig"]);
  expect(await apply(provider(1))).toMatchObject({ code: 0 });
  const named = await apply(provider(2), "--server-side", "--field-manager=other");
  expect(named).toMatchObject({ code: 1, err: expect.stringContaining("kubectl-client-side-apply") });
}, 60_000);
