// The process's environment before the SDK is loaded: no key, no proxy, nothing that makes it ask the network or a person's own set-up.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What a terminal, an editor and a clipboard need. Everything else is taken out: a provider's key would make its models available. */
const KEPT =
  /^(PATH|HOME|USER|LOGNAME|SHELL|PWD|TMPDIR|TZ|TERM|TERM_PROGRAM|TERM_PROGRAM_VERSION|COLORTERM|COLORFGBG|NO_COLOR|FORCE_COLOR|LANG|LANGUAGE|LC_\w+|TMUX|TMUX_PANE|STY|SSH_CLIENT|SSH_CONNECTION|SSH_TTY|DISPLAY|WAYLAND_DISPLAY|XDG_RUNTIME_DIR|XDG_SESSION_TYPE|WSL_DISTRO_NAME|WSL_INTEROP|TERMUX_VERSION|EDITOR|VISUAL|KITTY_WINDOW_ID|WEZTERM_PANE|GHOSTTY_RESOURCES_DIR|ITERM_SESSION_ID|WT_SESSION|VTE_VERSION|CI)$/;

/** The SDK downloads these two where it finds none, and offers this machine's files with them: an agent's files are elsewhere. */
const FINDERS = ["fd", "rg"];

/** Changes the environment for good, and answers the SDK's folder: a temporary one, which goes when the process ends. */
export function closeEnvironment(env: NodeJS.ProcessEnv): string {
  for (const name of Object.keys(env)) if (!KEPT.test(name)) Reflect.deleteProperty(env, name);
  const folder = mkdtempSync(join(tmpdir(), "beige-tui-"));
  mkdirSync(join(folder, "bin"));
  for (const name of FINDERS) writeFileSync(join(folder, "bin", name), "#!/bin/sh\nexit 1\n", { mode: 0o700 });
  Object.assign(env, { PI_OFFLINE: "1", PI_TELEMETRY: "0", PI_SKIP_VERSION_CHECK: "1", PI_CODING_AGENT_DIR: folder });
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
