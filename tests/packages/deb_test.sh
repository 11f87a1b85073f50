#!/bin/sh
# deb_test.sh PACKAGES [--short] - install, use and remove the packages in that folder in a new Debian system
#
# mmdebstrap makes the system from the sources of apt of this machine, as root or in a user namespace, runs inside.sh in
# it, and removes it. --short leaves out lintian, and compiles a program of somebody else here, against the unpacked
# packages, instead of there with a compiler of its own.
set -eu
packages=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../..
fail() { echo "FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

for file in "$packages"/*.deb; do dpkg-deb -x "$file" "$work/root"; done
files="$here/inside.sh $source/examples/complete.c $source/models/hearth-tiny.gguf"
if [ "${2:-}" = --short ]; then
  PKG_CONFIG_PATH=$(dirname "$(find "$work/root" -name hearth.pc)")
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046
  cc "$source/examples/complete.c" -o "$work/complete" $(pkg-config --cflags --libs hearth) ||
    fail "a program does not compile"
  files="$files $work/complete"
else
  lintian --fail-on error "$packages"/*.deb || fail "lintian finds errors"
fi

# The unit, with the command in its unpacked place.
if command -v systemd-analyze >/dev/null; then
  sed "s,^\(Exec[A-Za-z]*=\)/usr/bin/hearth,\1$work/root/usr/bin/hearth," "$work/root/lib/systemd/system/hearth.service" \
    >"$work/hearth.service"
  SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$work/hearth.service" >"$work/log" 2>&1 ||
    fail "systemd refuses the unit: $(cat "$work/log")"
  ! grep hearth.service "$work/log" || fail "systemd warns of the unit"
fi

. /etc/os-release
# shellcheck disable=SC2016
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  sort -u >"$work/sources"
[ -s "$work/sources" ] || fail "apt has no source of Debian's packages"
# A system that is gone at the end needs no fsync, and no index of its manuals.
# shellcheck disable=SC2016
mmdebstrap --quiet --variant=apt --dpkgopt=force-unsafe-io \
  --essential-hook='echo man-db man-db/auto-update boolean false | chroot "$1" debconf-set-selections' \
  --include=systemd-standalone-sysusers,curl,logrotate,man-db --customize-hook='mkdir "$1/test"' \
  --customize-hook="copy-in $(ls "$packages"/*.deb | tr '\n' ' ') $files /test" \
  --customize-hook='chroot "$1" sh /test/inside.sh' "$VERSION_CODENAME" /dev/null "$work/sources"
echo "the packages can be installed, used and removed"
