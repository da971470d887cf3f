// What the SDK may see of the machine, and the words that do nothing here.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { typed } from "./editor.ts";
import { closeEnvironment } from "./environment.ts";

test("no key, proxy, flag or set-up of the person is left in the environment; what a terminal needs is", () => {
  const secrets = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GITHUB_TOKEN",
    "HTTPS_PROXY",
    "NODE_OPTIONS",
    "BEIGE_TOKEN",
    "PI_EXPERIMENTAL",
    "AWS_PROFILE",
    "XDG_CONFIG_HOME",
  ];
  const env: NodeJS.ProcessEnv = {
    PATH: "/bin",
    TERM: "xterm",
    LC_ALL: "C.UTF-8",
    TMUX: "x",
    ...Object.fromEntries(secrets.map((name) => [name, "s"])),
  };
  const folder = closeEnvironment(env);
  expect(Object.keys(env).filter((name) => secrets.includes(name))).toEqual([]);
  expect(env).toMatchObject({ PATH: "/bin", TERM: "xterm", LC_ALL: "C.UTF-8", TMUX: "x", PI_OFFLINE: "1", PI_CODING_AGENT_DIR: folder });
  expect(readdirSync(join(folder, "bin"))).toEqual(["fd", "rg"]);
  process.listeners("exit").at(-1)?.call(process, 0);
  expect(existsSync(folder)).toBe(false);
});

test("words that would act on this machine are refused with what does it; all others go on as they are", () => {
  for (const word of ["/login", "/login openai", "/share", "/bug x", "/import a.jsonl", " /trust", "/reload"]) {
    expect(typed(word).text).toBeUndefined();
    expect(typed(word).why).toContain("is not here");
  }
  expect(typed("/resume")).toEqual({ text: "/sessions" });
  expect(typed("/v off")).toEqual({ text: "/verbose off" });
  for (const text of ["hello", "/loginx", "/vx", "/new", "! ls", "say /login", "/toString"]) expect(typed(text)).toEqual({ text });
});
