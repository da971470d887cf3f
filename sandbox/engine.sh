#!/bin/sh
# Makes sure that a Docker engine answers and that the images beige-tiny:1 and beige-base:1 are there. Safe to run any number of
# times and from several processes at once; an engine that answers is left as it is.
#
#   engine.sh [ensure]   the engine (installed from Debian and started where root and absent), then the images; one status line
#   engine.sh images     only the images
#   engine.sh status     one line, changes nothing; exit 0 when all is there, 5 when not (also --status)
#   engine.sh stop       ends an engine that this script started, and no other
#
# BEIGE_ENGINE_ROOT=DIR makes a private engine below DIR for tests: socket DIR/docker.sock, no network.
# BEIGE_ENGINE_ARGS=WORDS are more arguments for a private engine, such as --live-restore.
# BEIGE_ENGINE_WAIT=SECONDS is how long an engine may take to come up (60).
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
root=${BEIGE_ENGINE_ROOT:-}
wait_seconds=${BEIGE_ENGINE_WAIT:-60}

say() { printf 'beige: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 5
}

if [ -n "$root" ]; then
  mkdir -p "$root"
  root=$(cd "$root" && pwd)
  socket=$root/docker.sock state=$root log=$root/dockerd.log pidfile=$root/docker.pid exec_root=$root/exec
  [ ${#socket} -le 80 ] || fail "$root is too long a path for sockets; use a shorter one"
else
  case ${DOCKER_HOST:-} in
    unix://*) socket=${DOCKER_HOST#unix://} ;;
    "") socket=/var/run/docker.sock ;;
    *) fail "DOCKER_HOST is $DOCKER_HOST; only unix:// is understood" ;;
  esac
  pidfile=/var/run/docker.pid exec_root=/var/run/docker log=/var/log/beige-dockerd.log
  if [ "$(id -u)" = 0 ]; then state=/run/beige-engine; else state=${BEIGE_HOME:-$HOME/.beige}/engine; fi
fi
mine=$state/started

# --- the engine's API, by whichever client is there ---

api() { # METHOD PATH [curl arguments]
  method=$1 path=$2
  shift 2
  curl -sS --max-time "${api_seconds:-20}" --unix-socket "$socket" -X "$method" "$@" "http://engine$path"
}
answers() {
  [ -S "$socket" ] || return 1
  if command -v curl >/dev/null 2>&1; then
    [ "$(api_seconds=5 api GET /_ping 2>/dev/null)" = OK ]
  else
    timeout 10 docker -H "unix://$socket" version --format ok >/dev/null 2>&1
  fi
}
docker_() { timeout 300 docker -H "unix://$socket" "$@"; }
image_there() {
  if command -v curl >/dev/null 2>&1; then
    api GET "/images/$1/json" -f -o /dev/null 2>/dev/null
  else
    docker_ image inspect "$1" >/dev/null 2>&1
  fi
}
version() {
  if command -v curl >/dev/null 2>&1; then
    api GET /version 2>/dev/null | sed -n 's/.*"Version":"\([^"]*\)","ApiVersion".*/\1/p'
  else
    docker_ version --format '{{.Server.Version}}' 2>/dev/null
  fi
}

# --- installing ---

# Whether a file or command is missing, and how it is had; packages start nothing.
apt_install() {
  command -v apt-get >/dev/null 2>&1 || fail "no Docker engine here, and no apt-get to install one; install Docker, then run this again"
  policy=/usr/sbin/policy-rc.d
  saved=
  if [ -e "$policy" ]; then
    saved=$policy.beige-saved
    mv "$policy" "$saved"
  fi
  restore() { if [ -n "$saved" ]; then mv -f "$saved" "$policy"; else rm -f "$policy"; fi; }
  trap 'restore; exit 1' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  good=yes
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 9>&- || {
    apt-get update >>"$log" 2>&1 9>&- || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 9>&- || good=no
  }
  restore
  trap - HUP INT TERM
  [ $good = yes ] || fail "could not install $*; see $log"
}

install_engine() {
  missing=
  command -v dockerd >/dev/null 2>&1 || missing=docker.io
  command -v iptables >/dev/null 2>&1 || missing="$missing iptables"
  [ -n "$missing" ] || return 0
  say "installing$([ "$missing" = docker.io ] || printf ' ')$missing"
  # shellcheck disable=SC2086
  apt_install $missing
}

# --- starting and stopping ---

runs() { # PID WORD: whether this process runs, and its command line has WORD
  [ -n "$1" ] && [ -r "/proc/$1/cmdline" ] && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF -- "$2"
}
born() { # start time of a process, so that a number used again is not taken for it
  sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}
is_mine() { # PID: whether this script started that engine
  [ -r "$mine" ] || return 1
  read -r pid when <"$mine"
  [ "$pid" = "$1" ] && [ "$(born "$pid")" = "$when" ]
}
# Ends a process that we know, waits, and is sure.
end() {
  kill "$1" 2>/dev/null || return 0
  i=0
  while [ $i -lt 150 ] && [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do
    sleep 0.1
    i=$((i + 1))
  done
  kill -9 "$1" 2>/dev/null || true
}

# What a killed engine leaves behind: a pid file that names nobody or somebody else, a containerd without its engine, a dead socket.
clean_leftovers() {
  old=$(cat "$pidfile" 2>/dev/null || true)
  if runs "$old" dockerd; then
    is_mine "$old" || fail "the engine with process id $old does not answer, and this script did not start it; restart it (systemctl restart docker, or kill $old) and run this again"
    say "the engine with process id $old does not answer; ending it"
    end "$old"
  fi
  rm -f "$pidfile"
  for cmdline in /proc/[0-9]*/cmdline; do
    pid=${cmdline#/proc/}
    pid=${pid%/cmdline}
    runs "$pid" "containerd --config $exec_root/containerd/containerd.toml" || continue
    # One with a living parent belongs to an engine, be it one that is seen from a container only.
    parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null || true)
    runs "$parent" dockerd || end "$pid"
  done
  rm -f "$exec_root/containerd/containerd.pid" "$exec_root/containerd/containerd.sock" "$exec_root/containerd/containerd-debug.sock" \
    "$exec_root/containerd/containerd.sock.ttrpc"
  [ ! -S "$socket" ] || rm -f "$socket"
}

# Containers of a private engine that was killed live on below their shims, and nobody else would end them.
end_shims() {
  for cmdline in /proc/[0-9]*/cmdline; do
    pid=${cmdline#/proc/}
    pid=${pid%/cmdline}
    runs "$pid" "-address $exec_root/containerd/containerd.sock" || continue
    # shellcheck disable=SC2046
    kill -9 $(cat "/proc/$pid/task/$pid/children" 2>/dev/null) "$pid" 2>/dev/null || true
  done
}

start_private() {
  # Without a network namespace of its own a second engine would delete docker0 of the first one. The names are the same at
  # each start, so that it finds what it ran before.
  space=beige-$(printf %s "$root" | cksum | cut -d' ' -f1)
  # shellcheck disable=SC2086
  setsid unshare -n dockerd ${BEIGE_ENGINE_ARGS:-} --data-root "$root/data" --exec-root "$exec_root" --pidfile "$pidfile" -H "unix://$socket" \
    --bridge none --iptables=false --ip-masq=false --containerd-namespace "$space" --containerd-plugins-namespace "$space-plugins" \
    >>"$log" 2>&1 </dev/null 9>&- &
}
start_engine() { # extra arguments
  if [ -n "$root" ]; then
    start_private
  elif [ -d /run/systemd/system ] && systemctl cat docker.service >/dev/null 2>&1; then
    systemctl start docker >>"$log" 2>&1 9>&- || true
    return 0
  else
    setsid dockerd --pidfile "$pidfile" -H "unix://$socket" "$@" >>"$log" 2>&1 </dev/null 9>&- &
  fi
  started=$!
}

# True once the engine answers; false when it has died or the time is up.
wait_answer() {
  until_second=$(($(date +%s) + wait_seconds))
  while [ "$(date +%s)" -le $until_second ]; do
    if answers; then return 0; fi
    if [ -n "${started:-}" ] && [ ! -d "/proc/$started" ]; then return 1; fi
    sleep 0.1
  done
  return 1
}

remember() {
  pid=$(cat "$pidfile" 2>/dev/null || true)
  if [ -n "${started:-}" ] && runs "$pid" dockerd; then printf '%s %s\n' "$pid" "$(born "$pid")" >"$mine"; fi
}

need_root() {
  if [ -S "$socket" ] && [ ! -w "$socket" ]; then
    fail "$(id -un) may not use the engine at $socket; run: sudo usermod -aG docker $(id -un)   then log in again"
  fi
  fail "no Docker engine answers at $socket, and only root can start one; run: sudo $here/engine.sh && sudo usermod -aG docker $(id -un)   then log in again"
}

ensure_engine() {
  answers && return 0
  [ "$(id -u)" = 0 ] || need_root
  install_engine
  started=
  say "starting an engine at $socket"
  old=$(cat "$pidfile" 2>/dev/null || true)
  # An engine that is just coming up gets its time; anything else in the way is cleared first.
  if runs "$old" dockerd; then wait_answer && return 0; fi
  clean_leftovers
  start_engine
  if ! wait_answer; then
    say "the engine did not come up; clearing what it left and trying once more"
    [ -z "$started" ] || end "$started"
    clean_leftovers
    if [ -z "$root" ] && tail -n 40 "$log" | grep -qi iptables; then start_engine --iptables=false --bridge=none; else start_engine; fi
    wait_answer || fail "no engine: $(tail -n 3 "$log" 2>/dev/null | tr '\n' ' '); all of it is in $log"
  fi
  remember
}

# After a crash: containers of ours that are dead, and the default bridge when somebody took it away.
mend_engine() {
  command -v docker >/dev/null 2>&1 || return 0
  for id in $(docker_ ps -aq --filter status=dead --filter label=beige.dev/store 2>/dev/null); do docker_ rm -f "$id" >/dev/null 2>&1 || true; done
  [ -z "$root" ] && [ "$(id -u)" = 0 ] && [ -e "$mine" ] && command -v ip >/dev/null 2>&1 || return 0
  if ip link show docker0 >/dev/null 2>&1; then return 0; fi
  subnet=$(docker_ network inspect bridge --format '{{range .IPAM.Config}}{{.Subnet}}{{end}}' 2>/dev/null) || return 0
  case $subnet in *.*/*) ;; *) return 0 ;; esac
  say "bringing back the bridge docker0"
  network=${subnet%/*}
  { ip link add docker0 type bridge && ip addr add "${network%.*}.1/${subnet#*/}" dev docker0 && ip link set docker0 up; } || true
}

stop_engine() {
  [ -e "$mine" ] || fail "no engine that this script started; nothing was stopped"
  read -r pid when <"$mine"
  if runs "$pid" dockerd && is_mine "$pid"; then end "$pid"; fi
  rm -f "$mine"
  [ -n "$root" ] || return 0
  clean_leftovers
  end_shims
  # Deepest first; what is mounted below the root would keep it from being removed.
  awk -v r="$root/" 'index($2, r) == 1 {print $2}' /proc/mounts | sort -r | while read -r point; do umount -l "$point" 2>/dev/null || true; done
}

status() {
  if ! answers; then
    printf 'engine: none answers at %s\n' "$socket"
    return 5
  fi
  line="engine: Docker $(version) at $socket; images:" code=0
  for image in beige-tiny:1 beige-base:1 beige-sandbox:latest; do
    if image_there "$image"; then line="$line $image"; else line="$line (no $image)" code=5; fi
  done
  printf '%s\n' "$line"
  return $code
}

locked() {
  mkdir -p "$state"
  exec 9>"$state/lock"
  flock -w 600 9 || fail "another engine.sh has held $state/lock for ten minutes"
}

# shellcheck source=images.sh
. "$here/images.sh"

case ${1:-ensure} in
  ensure)
    if ! answers || ! images_there || [ -e "$mine" ]; then
      locked
      ensure_engine
      mend_engine
      make_images
    fi
    status
    ;;
  images)
    answers || fail "no Docker engine answers at $socket; run: $here/engine.sh"
    if ! images_there; then
      locked
      make_images
    fi
    status
    ;;
  status | --status) status ;;
  stop)
    locked
    stop_engine
    ;;
  *)
    say "unknown word $1; use ensure, images, status or stop"
    exit 2
    ;;
esac
