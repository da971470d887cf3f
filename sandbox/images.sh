# shellcheck shell=sh
# Part of engine.sh: images from what this machine has, since no registry can be assumed. tiny is a static busybox; base is the
# host's own programs with their libraries. beige-sandbox is built from guest/Dockerfile where its base image is present, else it is beige-base by another name.

images_there() { image_there beige-tiny:1 && image_there beige-base:1 && image_there beige-sandbox:latest; }

import_image() { # FOLDER NAME TAG
  tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/image.tar" .
  if command -v docker >/dev/null 2>&1; then
    docker_ import --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' --change 'WORKDIR /workspace' "$work/image.tar" "$2:$3" >/dev/null
  else
    api_seconds=300 api POST "/images/create?fromSrc=-&repo=$2&tag=$3&changes=ENV%20PATH%3D/usr/local/bin:/usr/bin:/bin&changes=WORKDIR%20/workspace" \
      -f -H 'Content-Type: application/x-tar' -T "$work/image.tar" >/dev/null
  fi
  rm -f "$work/image.tar"
}

skeleton() { # FOLDER: what any root file system needs
  mkdir -p "$1/bin" "$1/usr/bin" "$1/usr/local/bin" "$1/etc" "$1/proc" "$1/sys" "$1/dev" "$1/root" "$1/home" "$1/var/tmp" "$1/run" \
    "$1/tmp" "$1/workspace" "$1/beige" "$1/tools/bin" "$1/tools/packages"
  chmod 1777 "$1/tmp" "$1/var/tmp"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$1/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$1/etc/group"
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$1/etc/nsswitch.conf"
}

find_busybox() {
  box=$(command -v busybox 2>/dev/null || true)
  # A dynamic one would need libraries: ldd fails for a static program.
  if [ -n "$box" ] && ! ldd "$box" >/dev/null 2>&1; then return 0; fi
  command -v apt-get >/dev/null 2>&1 || fail "a static busybox is needed for beige-tiny:1; install one as busybox"
  (cd "$work" && chmod 755 . && { apt-get download busybox-static >>"$work/apt.log" 2>&1 9>&- || { apt-get update >>"$work/apt.log" 2>&1 9>&- &&
    apt-get download busybox-static >>"$work/apt.log" 2>&1 9>&-; }; }) || fail "could not download busybox-static: $(tail -n 2 "$work/apt.log" | tr '\n' ' ')"
  dpkg-deb -x "$work"/busybox-static_*.deb "$work/box"
  box=$(find "$work/box" -path '*bin/busybox' -type f | head -n 1)
}

make_tiny() {
  find_busybox
  "$box" true || fail "busybox at $box does not run here"
  skeleton "$work/tiny"
  cp -L "$box" "$work/tiny/bin/busybox"
  chmod 755 "$work/tiny/bin/busybox"
  for applet in $("$box" --list); do
    case $applet in busybox | su | sulogin | login | mount | umount | ping | ping6 | traceroute) continue ;; esac
    ln -sf busybox "$work/tiny/bin/$applet"
  done
  ln -sf ../../bin/busybox "$work/tiny/usr/bin/env"
  import_image "$work/tiny" beige-tiny 1
}

# One program of this machine with every library that it loads, each at its own path.
take_program() { # NAME [TARGET]
  from=$(command -v "$1" 2>/dev/null || true)
  case $from in /*) ;; *) return 1 ;; esac
  real=$(readlink -f "$from")
  to=${2:-/usr/bin/$1}
  cp -L "$real" "$work/base$to"
  chmod 755 "$work/base$to"
  ldd "$real" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | while read -r library; do
    [ ! -e "$work/base$library" ] || continue
    mkdir -p "$work/base$(dirname "$library")"
    cp -L "$library" "$work/base$library"
  done
}

base_programs="bash dash cat cp mv rm ln ls mkdir rmdir touch chmod head tail sort uniq wc cut tr tee env printf echo true false test sleep date
  basename dirname readlink realpath stat du df id whoami uname hostname seq expr sha256sum md5sum base64 od split comm paste join nl tac rev
  mktemp timeout nproc yes xargs find grep sed mawk gawk awk diff cmp patch tar gzip gunzip zcat bzip2 xz file which ps kill pgrep less curl jq git"

make_base() {
  skeleton "$work/base"
  # Where the machine has /bin as a link into /usr, so has the image: programs then name their parts as they do here.
  if [ -L /bin ]; then
    rmdir "$work/base/bin"
    mkdir -p "$work/base/usr/lib" "$work/base/usr/lib64" "$work/base/usr/sbin"
    for part in bin lib lib64 sbin; do ln -s "usr/$part" "$work/base/$part"; done
  fi
  for program in $base_programs; do
    case $program in git) continue ;; esac # not without its many parts
    take_program "$program" || true
  done
  ln -sf dash "$work/base/usr/bin/sh"
  [ -L /bin ] || ln -sf ../usr/bin/dash "$work/base/bin/sh"
  take_node
  take_program deno /usr/local/bin/deno || say "no deno on this machine; beige-base:1 is made without it"
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    [ -r "$bundle" ] || continue
    mkdir -p "$work/base/etc/ssl/certs"
    cp -L "$bundle" "$work/base/etc/ssl/certs/ca-certificates.crt"
    break
  done
  import_image "$work/base" beige-base 1
}

take_node() {
  for node in "$here/../node_modules/node/bin/node" "$here/../../node_modules/node/bin/node" "$here/../../../node/bin/node"; do
    if [ -x "$node" ]; then
      PATH=$(dirname "$node"):$PATH take_program node /usr/local/bin/node
      return
    fi
  done
  take_program node /usr/local/bin/node || say "no node on this machine; beige-base:1 is made without it"
}

# The default of Agent.spec.sandbox.image. Never pulls: where the Dockerfile's own base is not here, it is the base image under another
# name (no Deno), so that the default runs everywhere; "docker pull debian:bookworm-slim && docker rmi beige-sandbox:latest" and another
# call make the whole one.
make_sandbox() {
  if command -v docker >/dev/null 2>&1 && image_there debian:bookworm-slim; then
    docker_ build -q -t beige-sandbox:latest "$here/guest" >>"$work/build.log" 2>&1 && return
    say "beige-sandbox:latest could not be built: $(tail -n 2 "$work/build.log" | tr '\n' ' ')"
  fi
  say "making the image beige-sandbox:latest from beige-base:1 (debian:bookworm-slim is not on this engine)"
  if command -v curl >/dev/null 2>&1; then
    api POST "/images/beige-base:1/tag?repo=beige-sandbox&tag=latest" -f -o /dev/null
  else
    docker_ tag beige-base:1 beige-sandbox:latest
  fi
}

make_images() {
  images_there && return 0
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  image_there beige-tiny:1 || { say "making the image beige-tiny:1"; make_tiny; }
  image_there beige-base:1 || { say "making the image beige-base:1"; make_base; }
  image_there beige-sandbox:latest || make_sandbox
}
