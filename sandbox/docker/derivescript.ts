// The recipe by which packages come into an image: what runs as root in a container of its own, and how its output is read. Pure.

/** Begins what the recipe itself says. */
const SAYS = "beige: ";
export const NO_MANAGER = 3;
const LINES_SHOWN = 6;
const SHOWN_MAX = 900;

/**
 * POSIX sh, for any image. Arguments: proxy or nothing, seconds, packages. Names are checked long before, and are never a part of
 * the script's text.
 */
const SCRIPT = `
proxy=$1 seconds=$2
shift 2
if [ -n "$proxy" ]; then export http_proxy="$proxy" https_proxy="$proxy" HTTP_PROXY="$proxy" HTTPS_PROXY="$proxy"; fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C TERM=dumb PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
umask 022
( sleep "$seconds"; kill -9 -1 ) >/dev/null 2>&1 &
has() { command -v "$1" >/dev/null 2>&1; }
say() { echo "${SAYS}$*"; }
if has apt-get; then
  say "apt-get reads the package lists"
  apt-get -q update || exit 1
  say "apt-get installs"
  apt-get -q -y -o APT::Cmd::Pattern-Only=true -o Dpkg::Use-Pty=0 --no-install-recommends install -- "$@" </dev/null || exit 1
  say "apt-get cleans up"
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log
elif has apk; then
  left=$#
  while [ "$left" -gt 0 ]; do
    one=$1
    shift
    case $one in *=*.\\*) one="\${one%%=*}=~\${one#*=}" one=\${one%.\\*} ;; esac
    set -- "$@" "$one"
    left=$((left - 1))
  done
  say "apk installs"
  apk add --no-cache "$@" </dev/null || exit 1
elif has dnf; then
  say "dnf installs"
  dnf -q -y --setopt=install_weak_deps=False --nodocs install "$@" </dev/null || exit 1
  dnf -q clean all
  rm -rf /var/cache/dnf
elif has microdnf; then
  say "microdnf installs"
  microdnf -y --setopt=install_weak_deps=0 --nodocs install "$@" </dev/null || exit 1
  microdnf clean all
else
  say "the image has no apt-get, apk, dnf or microdnf to install packages with"
  exit ${NO_MANAGER}
fi
say "done"
exit 0
`;

export const recipe = (packages: readonly string[], about: { readonly proxy?: string; readonly limitMs: number }): readonly string[] => [
  "-c",
  SCRIPT,
  "beige-build",
  about.proxy ?? "",
  String(Math.ceil(about.limitMs / 1000)),
  ...packages,
];

/** Without what would move a terminal or break a line of a status. */
const plain = (line: string): string =>
  // eslint-disable-next-line no-control-regex -- they are what is taken out
  line.replaceAll(/\u001B\[[0-9;?]*[A-Za-z]|[\u0000-\u001F\u007F-\u009F]/g, " ").trim();

const linesOf = (output: string): readonly string[] =>
  output
    .split(/[\r\n]/)
    .map(plain)
    .filter((line) => line !== "");

/** What it does now, in its own words. */
export const doingOf = (output: string): string =>
  linesOf(output)
    .findLast((line) => line.startsWith(SAYS))
    ?.slice(SAYS.length) ?? "it starts";

const TROUBLE = /^(E:|W: Failed|ERROR|Error|error|No match|dpkg: error)/;

/** The lines that say what went wrong, or the last ones where none looks like it. */
export function tailOf(output: string): string {
  const lines = linesOf(output);
  const own = lines.filter((line) => !line.startsWith(SAYS));
  const trouble = own.filter((line) => TROUBLE.test(line));
  const shown = trouble.length > 0 ? trouble : own.length > 0 ? own : lines.map((line) => line.replace(SAYS, ""));
  const text = [...new Set(shown)].slice(-LINES_SHOWN).join("; ");
  return text.length > SHOWN_MAX ? `…${text.slice(-SHOWN_MAX)}` : text;
}
