#!/bin/sh
# build.sh - install the packages of the page, and build it
#
# Usage: build.sh OUT. build.mjs says which files it writes into the folder OUT.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=$("$here/../scripts/npm.sh" "$here") || {
  echo "the page at / cannot be built, see above; 'make CMAKE_FLAGS=-DHEARTH_PAGE=OFF' builds Hearth without it" >&2
  exit 1
}
mkdir -p "$1"
exec node "$here/build.mjs" "$modules/node_modules" "$1"
