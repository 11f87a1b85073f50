#!/bin/sh
# build_test.sh BUILD - packages of the ordinary build, with its engine, can be installed, used and removed
#
# `make deb-test` tests those that `make deb` makes, whose engine takes long to build. Exits with 77, "skipped", where
# the tools of Debian are missing, or where its packages cannot be fetched.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "SKIPPED: $*"; exit 77; }

grep -qx 'ID=debian' /etc/os-release 2>/dev/null || skip "this system is not Debian"
for tool in dh mmdebstrap; do
  command -v $tool >/dev/null || skip "$tool is missing; 'scripts/deps.sh --tests' installs it"
done
if [ "$(id -u)" != 0 ] && ! { command -v newuidmap >/dev/null && grep -q "^$(id -un):" /etc/subuid; } 2>/dev/null; then
  skip "mmdebstrap needs root, or the package uidmap and a line for $(id -un) in /etc/subuid"
fi
unset HEARTH_ENGINE_DIRECTORY # that of the other tests; the packages have their own
packages=$build/packages-test # those of `scripts/deb.sh build` are somebody's
trap 'rm -rf "$build/deb" "$packages"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$packages"
# shellcheck disable=SC2016
lists=$(apt-get indextargets --format '$(REPO_URI)dists/$(RELEASE)/InRelease' 'Created-By: Packages' 'Origin: Debian')
for list in $(echo "$lists" | sort -u); do
  /usr/lib/apt/apt-helper -qq download-file "$list" "$packages/list" >"$packages/log" 2>&1 ||
    skip "no packages of Debian can be fetched: $(cat "$packages/log")"
done
"$here/../../scripts/deb.sh" "$build" "$packages"
"$here/deb_test.sh" "$packages" --short
