// Stock kubectl applying twenty agents that are there already, against the start of kubectl alone.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../test/gateway.ts";
import { type Fleet, names, stackOf } from "./fleet.ts";
import { atMost, interleaved, type Line, runProgram, timed } from "./measure.ts";

const CLIENT = ["version", "--client"];

/** KUBECTL names one; then the one that the tests have fetched, then PATH. Nothing is fetched here. */
const found = (): string | undefined =>
  [process.env["KUBECTL"], join(root, "node_modules/.cache/kubectl/usr/bin/kubectl"), "kubectl"].find(
    (path) => path !== undefined && path !== "" && spawnSync(path, CLIENT, { stdio: "ignore" }).status === 0,
  );

/** Nothing where there is no kubectl. Leaves the gateway as it was. */
export async function kubectlApply({ gateway, file }: Fleet): Promise<readonly Line[]> {
  const kubectl = found();
  if (kubectl === undefined) {
    console.error("plane: no kubectl is found: its no-op apply is not measured");
    return [];
  }
  const home = mkdtempSync(join(tmpdir(), "beige-bench-kubectl-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));
  const config = join(home, "config");
  await gateway.stop();
  try {
    await gateway.start({ BEIGE_KUBE_LISTEN: "0" });
    const answer = await gateway.beige("kubeconfig");
    if (answer.code !== 0) throw new Error(`beige kubeconfig: ${answer.err}`);
    writeFileSync(config, answer.out, { mode: 0o600 });
    await gateway.apply(stackOf(names));
    const env = { PATH: process.env["PATH"] ?? "", HOME: home, KUBECONFIG: config };
    const run = (args: readonly string[]) => timed(() => runProgram(kubectl, args, env));
    const pair = await interleaved(
      { turns: 15, warmUp: 6 },
      () => run(["apply", "-f", file]),
      () => run(CLIENT),
    );
    const lines = spawnSync(kubectl, ["apply", "-f", file], { env, encoding: "utf8" }).stdout.trim().split("\n");
    if (lines.length !== names.length + 2 || !lines.every((each) => each.endsWith(" unchanged")))
      throw new Error(`not a no-op: ${lines.join("; ")}`);
    const note = "floor: kubectl version --client";
    return [atMost({ line: "kubectl apply of 20 agents, nothing to do", unit: "ms", limit: 2, note }, pair)];
  } finally {
    rmSync(home, { recursive: true, force: true });
    await gateway.stop();
    await gateway.start();
  }
}
