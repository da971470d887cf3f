#!/bin/sh
# Builds the guest for x64 and arm64; the same sources and compiler give the same bytes each time.
# x64 needs musl-tools. arm64 needs gcc-aarch64-linux-gnu and MUSL_ARM64, a folder with musl-dev of arm64 unpacked
# (the one that holds usr/include/aarch64-linux-musl). OUT says where to write; the committed binaries by default.
set -eu
cd "$(dirname "$0")"
out=${OUT:-bin}
which=${1:-all}
mkdir -p "$out"
sources="guest.c format.c init.c filter.c serve.c jobs.c wire.c relay.c run.c tree.c files.c json.c client.c"
flags="-std=gnu11 -Os -static -s -Wall -Wextra -Werror -fno-ident -fno-asynchronous-unwind-tables -fno-stack-protector
  -ffunction-sections -fdata-sections -ffile-prefix-map=$PWD=. -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,noexecstack
  -Wl,-z,noseparate-code -Wl,-z,norelro"

if [ "$which" = all ] || [ "$which" = x64 ]; then
  # shellcheck disable=SC2086
  musl-gcc $flags -o "$out/beige-guest-x64.new" $sources
  mv "$out/beige-guest-x64.new" "$out/beige-guest-x64"
fi
if [ "$which" = all ] || [ "$which" = arm64 ]; then
  : "${MUSL_ARM64:?name the folder with the arm64 musl-dev}"
  inc=$MUSL_ARM64/usr/include/aarch64-linux-musl
  lib=$MUSL_ARM64/usr/lib/aarch64-linux-musl
  # shellcheck disable=SC2086
  aarch64-linux-gnu-gcc $flags -mno-outline-atomics -nostdinc -isystem "$inc" -nostartfiles -nodefaultlibs -L "$lib" \
    -o "$out/beige-guest-arm64.new" "$lib/crt1.o" "$lib/crti.o" $sources -lc -lgcc "$lib/crtn.o"
  mv "$out/beige-guest-arm64.new" "$out/beige-guest-arm64"
fi
