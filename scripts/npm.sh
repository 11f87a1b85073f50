#!/bin/sh
# npm.sh - install packages of npm, at the versions of a lock file, outside the checkout
#
# Usage: npm.sh [--print] DIRECTORY
#
# DIRECTORY has package.json and package-lock.json. The only line on standard output is the directory with node_modules.
# npm fetches from its configured registry (the lock file names none) and checks each package against the digest in the
# lock file. The result lies in the cache directory under the digest of the lock file. It appears by one rename, whole or
# not at all; if several scripts install at once, one wins. With --print, the script installs nothing.
#
# Environment: HEARTH_CLIENTS_CACHE, where to keep them (default: $XDG_CACHE_HOME/hearth/clients or
# ~/.cache/hearth/clients).
set -eu
print=
if [ "${1:-}" = --print ]; then print=yes; shift; fi
here=$(cd "$1" && pwd)
die() { printf 'npm: %s\n' "$*" >&2; exit 1; }

for tool in node npm; do
  command -v "$tool" >/dev/null || die "'$tool' is missing; run scripts/deps.sh, which installs it"
done

cache=${HEARTH_CLIENTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth/clients}
key=$(cat "$here/package.json" "$here/package-lock.json" | node -e '
  const hash = require("crypto").createHash("sha256")
  process.stdin.on("data", (piece) => hash.update(piece)).on("end", () => console.log(hash.digest("hex").slice(0, 16)))')
final=$cache/$key
if [ -n "$print" ] || [ -d "$final/node_modules" ]; then echo "$final"; exit 0; fi

mkdir -p "$cache" || die "cannot create '$cache'; set HEARTH_CLIENTS_CACHE to a directory that can be written"
stage=$(mktemp -d "$cache/.stage-XXXXXX")
trap 'rm -rf "$stage"' EXIT
trap 'exit 1' HUP INT TERM
cp "$here/package.json" "$here/package-lock.json" "$stage/"
printf 'npm: installing the packages of %s into %s\n' "$here/package-lock.json" "$final" >&2
if ! (cd "$stage" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >"$stage/log" 2>&1; then
  cat "$stage/log" >&2
  die "npm could not install the packages of $here/package-lock.json; they need the npm registry once, or a filled" \
    "HEARTH_CLIENTS_CACHE"
fi
chmod 755 "$stage"
# rename(2), because mv would move it into a directory that another npm.sh has just made.
node -e 'require("fs").renameSync(process.argv[1], process.argv[2])' "$stage" "$final" 2>/dev/null ||
  [ -d "$final/node_modules" ] || die "cannot put the packages into '$final'"
echo "$final"
