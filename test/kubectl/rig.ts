// A real gateway with its door for kubectl, one agent in a real container, and a shell that runs kubectl against it.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeGateway, type Gateway } from "../gateway.ts";
import type { Kubectl } from "./clients.ts";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Bench {
  readonly gateway: Gateway;
  readonly kubeconfig: string;
  /** kubectl with a home of its own, so that no discovery of another server is remembered. */
  shell(kubectl: Kubectl): Shell;
  end(): Promise<void>;
}

export interface Options {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Ends it after this long, for what does not end. */
  readonly forMs?: number;
}

export interface Shell {
  readonly kubectl: Kubectl;
  readonly folder: string;
  readonly run: (args: readonly string[], options?: Options) => Promise<Ran>;
  /** Writes manifests into the shell's folder; answers the path. */
  readonly file: (name: string, text: string) => string;
}

export const AGENT = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: echo}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: travel, labels: {team: ops}}
spec:
  model: {provider: echo, id: echo}
  sandbox: {image: "beige-base:1"}
`;

/** Longer than every wait in it, so that whatever goes wrong is also cleaned up. */
export const BENCH_MS = 120_000;

export async function bench(): Promise<Bench> {
  const gateway = makeGateway({ args: ["--kube-listen", "0"] });
  const folders: string[] = [];
  const end = async (): Promise<void> => {
    await gateway.clean();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  };
  try {
    await gateway.start();
    await gateway.apply(AGENT);
    const told = await gateway.beige("kubeconfig");
    if (told.code !== 0) throw new Error(`beige kubeconfig: ${told.err}`);
    const kubeconfig = join(gateway.home, "kubeconfig");
    writeFileSync(kubeconfig, told.out, { mode: 0o600 });
    const shell = (kubectl: Kubectl): Shell => {
      const folder = mkdtempSync(join(tmpdir(), "beige-kubectl-home-"));
      folders.push(folder);
      const env = { PATH: process.env["PATH"] ?? "", HOME: folder, KUBECONFIG: kubeconfig };
      return {
        kubectl,
        folder,
        run: (args, options = {}) => run(kubectl.path, args, { ...options, env: { ...env, ...options.env }, cwd: folder }),
        file(name, text) {
          writeFileSync(join(folder, name), text, { mode: 0o700 });
          return join(folder, name);
        },
      };
    };
    return { gateway, kubeconfig, shell, end };
  } catch (error) {
    await end();
    throw error;
  }
}

function run(path: string, args: readonly string[], options: Options & { readonly cwd: string }): Promise<Ran> {
  return new Promise((done, fail) => {
    const child = spawn(path, args, { cwd: options.cwd, env: options.env, stdio: ["pipe", "pipe", "pipe"] });
    let [out, err] = ["", ""];
    const timer = setTimeout(() => child.kill("SIGINT"), options.forMs ?? 30_000);
    child.stdout.on("data", (part: Buffer) => (out += part.toString()));
    child.stderr.on("data", (part: Buffer) => (err += part.toString()));
    child.stdin.on("error", () => undefined);
    child.stdin.end(options.stdin ?? "");
    child.on("error", fail);
    child.on("close", (code) => {
      clearTimeout(timer);
      done({ code: code ?? -1, out, err });
    });
  });
}
