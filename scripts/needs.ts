// What the tests need of this machine beside Node: each a step that installs it where it is absent.

export type Step = readonly [title: string, command: string, args: readonly string[]];

/** The C compiler for static binaries: the guest is rebuilt and compared, and escape attempts are compiled. */
export function compiler(): Step {
  const install =
    "command -v musl-gcc >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends musl-tools gcc >/dev/null; }";
  return ["a compiler for the sandbox's tests", "sh", ["-c", install]];
}

/** The backend without an engine is tested beside the one with it. */
export function bubblewrap(): Step {
  const install =
    "command -v bwrap >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap util-linux >/dev/null; }";
  return ["bubblewrap for the sandbox's tests", "sh", ["-c", install]];
}

/** A terminal for the tests of `beige tui` and `beige top`. */
export function terminal(): Step {
  const install = "command -v tmux >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends tmux >/dev/null; }";
  return ["a terminal for the tests of the terminal", "sh", ["-c", install]];
}

/** Prometheus' own checker of metrics, kept beside the modules: its package would start a server. */
export function promtool(): Step {
  const cache = "node_modules/.cache/promtool";
  const install =
    `command -v promtool >/dev/null || test -x ${cache}/promtool || { ` +
    `rm -rf ${cache} && mkdir -p ${cache} && cd ${cache} && ` +
    "{ apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } && " +
    "dpkg -x prometheus_*.deb whole && mv whole/usr/bin/promtool . && rm -r whole prometheus_*.deb; }";
  return ["promtool for the test of the metrics", "sh", ["-c", install]];
}
