#!/bin/sh
# deb.sh BUILD [FOLDER] - make Debian packages of what was built in BUILD; they lie in FOLDER (BUILD/packages)
#
# What was in the folder is removed first.
# packaging/debian/ is the usual folder of debhelper. DEB_BUILD_OPTIONS are those of Debian.
set -eu
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
packages=${2:-$build/packages}
folder=$build/deb
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)

rm -rf "$folder" "$packages"
mkdir -p "$folder" "$packages"
cp -R packaging/debian CHANGELOG.md "$folder/"
# The day of the last change, so that the same source makes the same packages.
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
printf 'hearth (%s) unstable; urgency=medium\n\n  * CHANGELOG.md has the changes.\n\n -- %s  %s\n' \
  "$version" "$maintainer" "$date" >"$folder/debian/changelog"
(cd "$folder" && debian/rules binary >log 2>&1) || { tail -n 20 "$folder/log" >&2; exit 1; }
mv "$build"/*.deb "$packages/"
ls "$packages"/*.deb
