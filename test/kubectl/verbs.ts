// The verbs of kubectl, and what each must do against beige. Every version runs those marked `each`; the oldest and the newest run all.
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import type { Ran, Shell } from "./rig.ts";

export interface Case {
  readonly verb: string;
  /** Run by every version. */
  readonly each?: true;
  /** First minor version that has it. */
  readonly since?: number;
  /** Leaves the gateway as it was: cases run in order, and share the provider named in `name`. */
  readonly check: (shell: Shell, name: string) => Promise<void | "refused">;
}

const provider = (name: string, concurrency: number, more = ""): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata:
  name: ${name}
spec:
  api: echo
  concurrency: ${concurrency}
${more}`;

const ok = (ran: Ran): string => {
  expect({ code: ran.code, err: ran.err }).toEqual({ code: 0, err: expect.any(String) });
  return ran.out;
};
const refused = (ran: Ran, words: RegExp): void => {
  expect(ran.code).not.toBe(0);
  expect(ran.err + ran.out).toMatch(words);
};
const concurrency = async ({ run }: Shell, name: string): Promise<string> =>
  ok(await run(["get", "provider", name, "-o", "jsonpath={.spec.concurrency}"]));

export const READING: readonly Case[] = [
  {
    verb: "version, api-versions",
    check: async ({ run }) => {
      expect(ok(await run(["version", "-o", "json"]))).toContain("+beige");
      expect(ok(await run(["api-versions"]))).toContain("beige.dev/v1");
    },
  },
  {
    verb: "api-resources",
    each: true,
    check: async ({ run }) => {
      const out = ok(await run(["api-resources", "--no-headers"]));
      for (const line of [/^agents +ag +beige\.dev\/v1 +true +Agent$/m, /^pods +po +v1 +true +Pod$/m]) expect(out).toMatch(line);
    },
  },
  {
    verb: "get (table, wide, short names)",
    each: true,
    check: async ({ run }) => {
      expect(ok(await run(["get", "ag"]))).toMatch(/^NAME +READY +MODEL.*\ntravel +yes +echo/);
      expect(ok(await run(["get", "agents", "-A", "-o", "wide", "--show-labels"]))).toMatch(
        /NAMESPACE.*CONTAINER.*LABELS\ndefault +travel .*team=ops/,
      );
    },
  },
  {
    verb: "get all, categories",
    check: async ({ run }) => {
      const out = ok(await run(["get", "all", "-o", "name"]));
      for (const name of ["agent.beige.dev/travel", "provider.beige.dev/echo", "pod/travel"]) expect(out.split("\n")).toContain(name);
      expect(ok(await run(["get", "beige", "-o", "name"]))).not.toContain("pod/");
    },
  },
  {
    verb: "get -o json|yaml|jsonpath|custom-columns, -l, --field-selector, --sort-by",
    check: async ({ run }) => {
      expect(JSON.parse(ok(await run(["get", "agent", "travel", "-o", "json"])))).toMatchObject({
        kind: "Agent",
        spec: { model: { id: "echo" } },
      });
      expect(ok(await run(["get", "agents", "-o", "yaml"]))).toContain("kind: List");
      expect(ok(await run(["get", "agents", "-l", "team=ops", "-o", "custom-columns=N:.metadata.name", "--no-headers"]))).toBe("travel\n");
      expect(ok(await run(["get", "agents", "--field-selector", "metadata.name=nobody", "-o", "name"]))).toBe("");
      expect(ok(await run(["get", "providers", "--sort-by=.metadata.name"]))).toContain("echo");
      refused(await run(["get", "agent", "nobody"]), /NotFound.*nobody/s);
    },
  },
  {
    verb: "get --raw",
    check: async ({ run }) => {
      expect(ok(await run(["get", "--raw", "/healthz"]))).toBe("ok");
      expect(ok(await run(["get", "--raw", "/apis/beige.dev/v1/namespaces/default/agents/travel/status"]))).toContain('"conditions"');
    },
  },
  {
    verb: "explain",
    each: true,
    check: async ({ run }) => {
      const out = ok(await run(["explain", "agents.spec.model"]));
      expect(out).toContain("Name of a Provider.");
      expect(ok(await run(["explain", "agents", "--recursive"]))).toContain("drainTimeoutSeconds");
    },
  },
  {
    verb: "describe (with events)",
    each: true,
    check: async ({ run }) => {
      const out = ok(await run(["describe", "agent", "travel"]));
      expect(out).toMatch(/Kind: +Agent/);
      expect(out).toMatch(/Events:[\s\S]*Created .*container/);
    },
  },
  {
    verb: "describe pod, get pods",
    check: async ({ run }) => {
      expect(ok(await run(["get", "pods"]))).toMatch(/travel +1\/1 +Running/);
      expect(ok(await run(["describe", "pod", "travel"]))).toMatch(/Controlled By: +Agent\/travel[\s\S]*Events:[\s\S]*Created/);
      expect(ok(await run(["get", "pods", "-l", "beige.dev/agent=travel", "-o", "name"]))).toBe("pod/travel\n");
    },
  },
  {
    verb: "get events, namespaces",
    check: async ({ run }) => {
      expect(ok(await run(["get", "events"]))).toContain("agent/travel");
      expect(ok(await run(["get", "ns", "-o", "name"]))).toContain("namespace/default");
    },
  },
  {
    verb: "events --for",
    since: 26,
    check: async ({ run }) => expect(ok(await run(["events", "--for", "agents/travel"]))).toMatch(/Agent\/travel/),
  },
  {
    verb: "wait --for=condition=Ready",
    each: true,
    check: async ({ run }) =>
      expect(ok(await run(["wait", "--for=condition=Ready", "agent/travel", "--timeout=10s"]))).toContain("condition met"),
  },
  {
    verb: "logs",
    check: async ({ run }) => {
      // The call of another client before this one, or of the gateway's own door.
      expect(ok(await run(["logs", "travel", "--tail=5"]))).toMatch(/core_tool exec allowed exit=0 \d+ms \["echo before"\]/);
      expect(ok(await run(["logs", "-l", "beige.dev/agent=travel", "-c", "sandbox"]))).toContain("echo before");
    },
  },
  {
    verb: "exec",
    each: true,
    check: async ({ kubectl, run }) => {
      const ran = await run(["exec", "travel", "--", "sh", "-c", "echo 'o u t'; echo err >&2; exit 3"]);
      if (kubectl.minor < 30) {
        refused(ran, /exec needs a WebSocket.*kubectl 1\.30 or newer, or: beige exec/);
        return "refused";
      }
      expect(ran).toMatchObject({ code: 3, out: "o u t\n", err: expect.stringContaining("err\n") });
      return undefined;
    },
  },
  {
    verb: "exec -i",
    since: 30,
    check: async ({ run }) => {
      const text = `${"x".repeat(999)}\n`.repeat(600);
      expect(ok(await run(["exec", "-i", "travel", "--", "cat"], { stdin: text }))).toBe(text);
    },
  },
  {
    verb: "exec -t without a terminal here",
    since: 30,
    check: async ({ run }) => {
      // kubectl says so, and goes on without.
      const ran = await run(["exec", "-it", "travel", "--", "sh", "-c", "test -t 0 || echo plain"]);
      expect(ran).toMatchObject({ code: 0, out: "plain\n", err: expect.stringContaining("Unable to use a TTY") });
    },
  },
  {
    verb: "cp (both ways; tar over exec)",
    check: async (shell) => {
      const { kubectl, run } = shell;
      const text = `${"y".repeat(1_000)}\n`.repeat(2_000);
      const there = await run(["cp", shell.file("there.txt", text), "travel:/workspace/there.txt"]);
      if (kubectl.minor < 30) {
        refused(there, /exec needs a WebSocket.*kubectl 1\.30 or newer/);
        return "refused";
      }
      ok(there);
      ok(await run(["cp", "travel:/workspace/there.txt", `${shell.folder}/back.txt`]));
      expect(readFileSync(`${shell.folder}/back.txt`, "utf8")).toBe(text);
      return undefined;
    },
  },
  {
    verb: "auth can-i, --list",
    each: true,
    check: async ({ run }) => {
      expect(ok(await run(["auth", "can-i", "create", "agents"]))).toBe("yes\n");
      expect(await run(["auth", "can-i", "delete", "pods"])).toMatchObject({ code: 1, out: expect.stringMatching(/^no/) });
      const all = ok(await run(["auth", "can-i", "--list"]));
      expect(all).toMatch(/agents\.beige\.dev .*patch/);
      expect(all).not.toMatch(/secrets|configmaps/);
      expect(await run(["auth", "can-i", "get", "secrets"])).toMatchObject({ code: 1, out: expect.stringMatching(/^no/) });
    },
  },
  { verb: "auth whoami", since: 28, check: async ({ run }) => expect(ok(await run(["auth", "whoami"]))).toContain("beige:operator") },
];

export const WRITING: readonly Case[] = [
  {
    verb: "apply (create, no-op, change)",
    each: true,
    check: async (shell, name) => {
      const path = shell.file("p.yaml", provider(name, 2));
      expect(ok(await shell.run(["apply", "-f", path]))).toContain(`${name} created`);
      expect(ok(await shell.run(["apply", "-f", path]))).toContain(`${name} unchanged`);
      expect(ok(await shell.run(["apply", "-f", shell.file("p.yaml", provider(name, 3))]))).toContain(`${name} configured`);
      expect(await concurrency(shell, name)).toBe("3");
    },
  },
  {
    verb: "apply --dry-run=server, diff",
    each: true,
    check: async (shell, name) => {
      const path = shell.file("d.yaml", provider(name, 4));
      expect(ok(await shell.run(["apply", "-f", path, "--dry-run=server"]))).toContain("configured (server dry run)");
      const seen = await shell.run(["diff", "-f", path]);
      expect(seen.code).toBe(1);
      expect(seen.out).toMatch(/-  generation: 2\n\+  generation: 3[\s\S]*-  concurrency: 3\n\+  concurrency: 4/);
      expect(await concurrency(shell, name)).toBe("3");
      expect((await shell.run(["diff", "-f", shell.file("p.yaml", provider(name, 3))])).code).toBe(0);
    },
  },
  {
    verb: "apply of an unknown field is refused",
    each: true,
    check: async (shell, name) => {
      const path = shell.file("bad.yaml", provider(`${name}-bad`, 1, "  concurency: 3\n"));
      refused(await shell.run(["apply", "-f", path]), /unknown field "(spec\.)?concurency"/);
      refused(await shell.run(["get", "provider", `${name}-bad`]), /NotFound/);
    },
  },
  {
    verb: "apply --validate=warn",
    since: 25,
    check: async (shell, name) => {
      const path = shell.file("warn.yaml", provider(`${name}-warn`, 1, "  concurency: 3\n"));
      const ran = await shell.run(["apply", "-f", path, "--validate=warn"]);
      expect(ran).toMatchObject({ code: 0, err: expect.stringContaining('unknown field "spec.concurency"') });
      ok(await shell.run(["delete", "-f", path]));
    },
  },
  {
    verb: "label, annotate",
    check: async ({ run }, name) => {
      ok(await run(["label", "provider", name, "team=ops"]));
      ok(await run(["annotate", "provider", name, "note=hello"]));
      expect(ok(await run(["get", "providers", "-l", "team=ops", "-o", "name"]))).toContain(name);
      ok(await run(["label", "provider", name, "team-"]));
    },
  },
  {
    verb: "patch --type=merge|json",
    check: async (shell, name) => {
      ok(await shell.run(["patch", "provider", name, "--type=merge", "-p", '{"spec":{"concurrency":5}}']));
      const patch = '[{"op":"test","path":"/spec/concurrency","value":5},{"op":"replace","path":"/spec/concurrency","value":6}]';
      ok(await shell.run(["patch", "provider", name, "--type=json", "-p", patch]));
      expect(await concurrency(shell, name)).toBe("6");
      refused(await shell.run(["patch", "provider", name, "--type=json", "-p", patch]), /json patch does not apply/i);
    },
  },
  {
    verb: "patch (strategic) is refused in words",
    check: async ({ run }, name) =>
      refused(await run(["patch", "provider", name, "-p", '{"spec":{"concurrency":9}}']), /patch --type=merge/),
  },
  {
    verb: "edit",
    each: true,
    check: async (shell, name) => {
      const editor = shell.file("editor.sh", '#!/bin/sh\nsed -i "s/concurrency: .*/concurrency: 7/" "$1"\n');
      expect(ok(await shell.run(["edit", "provider", name], { env: { KUBE_EDITOR: editor } }))).toContain("edited");
      expect(await concurrency(shell, name)).toBe("7");
    },
  },
  {
    verb: "replace keeps uid and age",
    check: async (shell, name) => {
      const uid = (): Promise<Ran> => shell.run(["get", "provider", name, "-o", "jsonpath={.metadata.uid} {.metadata.creationTimestamp}"]);
      const before = ok(await uid());
      ok(await shell.run(["replace", "-f", shell.file("r.yaml", provider(name, 8))]));
      expect(ok(await uid())).toBe(before);
      expect(await concurrency(shell, name)).toBe("8");
    },
  },
  {
    verb: "apply --server-side (conflict, force)",
    each: true,
    check: async (shell, name) => {
      const own = `${name}-ssa`;
      const apply = (file: string, manager: string, ...more: string[]): Promise<Ran> =>
        shell.run(["apply", "--server-side", `--field-manager=${manager}`, "-f", file, ...more]);
      const [one, two] = [shell.file("1.yaml", provider(own, 1)), shell.file("2.yaml", provider(own, 2))];
      expect(ok(await apply(one, "first"))).toContain("serverside-applied");
      refused(await apply(two, "second"), /spec\.concurrency[\s\S]*first[\s\S]*--force-conflicts/);
      expect(await concurrency(shell, own)).toBe("1");
      ok(await apply(two, "second", "--force-conflicts"));
      expect(await concurrency(shell, own)).toBe("2");
      ok(await shell.run(["delete", "provider", own]));
    },
  },
  {
    verb: "client-side apply moves to server-side once",
    since: 26,
    each: true,
    check: async (shell, name) => {
      const path = shell.file("m.yaml", provider(`${name}-m`, 1));
      ok(await shell.run(["apply", "-f", path]));
      const moved = await shell.run(["apply", "--server-side", "-f", path]);
      expect({ code: moved.code, warned: moved.err }).toEqual({ code: 0, warned: "" });
      const again = await shell.run(["apply", "--server-side", "-f", path, "-v=6"]);
      expect(again.err.match(/PATCH/g)).toHaveLength(1);
      const managers = ok(await shell.run(["get", "provider", `${name}-m`, "-o", "jsonpath={.metadata.managedFields[*].manager}"]));
      expect(managers).not.toContain("kubectl-client-side-apply");
      ok(await shell.run(["delete", "provider", `${name}-m`]));
    },
  },
  {
    verb: "apply --prune",
    check: async (shell, name) => {
      const { minor } = shell.kubectl;
      const label = `  labels: {prune: ${name}}\n`;
      const labelled = (own: string): string => provider(own, 1).replace("spec:", `${label}spec:`);
      const flag = minor < 26 ? "--prune-whitelist=beige.dev/v1/Provider" : "--prune-allowlist=beige.dev/v1/Provider";
      ok(await shell.run(["apply", "-f", shell.file("pr.yaml", `${labelled(`${name}-a`)}---${labelled(`${name}-b`)}`)]));
      const ran = await shell.run(["apply", "-f", shell.file("pr.yaml", labelled(`${name}-a`)), "--prune", "-l", `prune=${name}`, flag]);
      expect(ok(ran)).toContain(`${name}-b pruned`);
      ok(await shell.run(["delete", "providers", "-l", `prune=${name}`]));
    },
  },
  {
    verb: "apply --prune --applyset",
    since: 27,
    check: async (shell, name) => {
      const path = shell.file("set.yaml", provider(`${name}-set`, 1));
      const env = { KUBECTL_APPLYSET: "true" };
      for (const set of ["myset", "configmaps/myset", "namespaces/default", "agents.beige.dev/travel"]) {
        const ran = await shell.run(["apply", "-n", "default", "-f", path, "--prune", `--applyset=${set}`], { env });
        refused(ran, /ApplySets are not offered; use beige apply -f FILE --prune, or kubectl apply .*--prune-allowlist=/);
      }
      refused(await shell.run(["get", "provider", `${name}-set`]), /NotFound/);
      return "refused";
    },
  },
  {
    verb: "create, create ns",
    check: async (shell, name) => {
      expect(ok(await shell.run(["create", "-f", shell.file("c.yaml", provider(`${name}-c`, 1))]))).toContain("created");
      refused(await shell.run(["create", "-f", shell.file("c.yaml", provider(`${name}-c`, 1))]), /AlreadyExists/);
      ok(await shell.run(["delete", "provider", `${name}-c`]));
      const made = await shell.run(["create", "ns", "team"]);
      expect(made).toMatchObject({ code: 0, out: "namespace/team created\n", err: expect.stringContaining("nothing was stored") });
    },
  },
  {
    verb: "get -w sees a change",
    check: async (shell, name) => {
      const watching = shell.run(["get", "provider", name, "-w", "-o", "jsonpath={.metadata.name}={.spec.concurrency}{'\\n'}"], {
        forMs: 4_000,
      });
      await new Promise((done) => setTimeout(done, 1_500));
      ok(await shell.run(["patch", "provider", name, "--type=merge", "-p", '{"spec":{"concurrency":11}}']));
      expect((await watching).out).toContain(`${name}=11`);
    },
  },
  {
    verb: "delete (dry run, wait) and wait --for=delete",
    each: true,
    check: async ({ run, file }, name) => {
      ok(await run(["delete", "provider", name, "--dry-run=server"]));
      ok(await run(["get", "provider", name]));
      const waiting = run(["wait", "--for=delete", `provider/${name}`, "--timeout=15s"]);
      await new Promise((done) => setTimeout(done, 300));
      expect(ok(await run(["delete", "-f", file("p.yaml", provider(name, 3)), "--wait"]))).toContain("deleted");
      ok(await waiting);
      refused(await run(["get", "provider", name]), /NotFound/);
    },
  },
  {
    verb: "delete of an agent waits for its finalizer",
    check: async ({ run, file }, name) => {
      const own = `agent-${name}`;
      const text = `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: ${own}}\nspec: {suspend: true, model: {provider: echo, id: echo}}\n`;
      ok(await run(["apply", "-f", file("a.yaml", text)]));
      ok(await run(["delete", "agent", own, "--timeout=15s"]));
      refused(await run(["get", "agent", own]), /NotFound/);
    },
  },
  {
    verb: "what is not offered says what to use",
    check: async ({ run, kubectl }) => {
      refused(await run(["delete", "pod", "travel"]), /kubectl delete agent/);
      refused(await run(["delete", "ns", "default"]), /goes with its last object/);
      refused(await run(["port-forward", "travel", "8080:80"], { forMs: 5_000 }), /port-forward is not offered/);
      refused(await run(["attach", "travel"]), /attach is not offered/);
      refused(await run(["attach", "-it", "travel"]), /attach is not offered/);
      refused(await run(["get", "secrets"]), /beige secret set/);
      refused(await run(["get", "cm", "x"]), /no ConfigMaps/);
      if (kubectl.minor >= 25) refused(await run(["debug", "travel", "--image=x"]), /kubectl debug is not offered/);
      refused(await run(["rollout", "status", "agent/travel"]), /no (status )?(viewer|kind)|unable to decode|no kind "Agent"/);
      refused(await run(["create", "secret", "generic", "x", "--from-literal=a=b"]), kubectl.minor < 32 ? /./ : /beige secret set/);
      refused(await run(["logs", "travel", "--previous"]), /no earlier part/);
    },
  },
];
