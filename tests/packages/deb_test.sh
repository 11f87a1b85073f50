#!/bin/sh
# deb_test.sh PACKAGES - install, use and remove the packages in that folder in a new Debian system
#
# mmdebstrap makes the system from the sources of apt of this machine, as root or in a user namespace, runs inside.sh in
# it, and removes it.
set -eu
packages=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../..
fail() { echo "FAILED: $*" >&2; exit 1; }

lintian --fail-on error "$packages"/*.deb || fail "lintian finds errors"

. /etc/os-release
sources=$(mktemp)
trap 'rm -f "$sources"' EXIT
# shellcheck disable=SC2016
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  sort -u >"$sources"
[ -s "$sources" ] || fail "apt has no source of Debian's packages"
files="$here/inside.sh $source/examples/complete.c $source/models/hearth-tiny.gguf"
# shellcheck disable=SC2016
mmdebstrap --quiet --variant=apt --customize-hook='mkdir "$1/test"' \
  --customize-hook="copy-in $(ls "$packages"/*.deb | tr '\n' ' ') $files /test" \
  --customize-hook='chroot "$1" sh /test/inside.sh' "$VERSION_CODENAME" /dev/null "$sources"
echo "the packages can be installed, used and removed"
