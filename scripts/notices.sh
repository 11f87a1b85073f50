#!/bin/sh
# notices.sh BUILD ENGINE - print the licenses of everything that Hearth links, and of the packages in its page
#
# The engine's are in its directory, those of libraries where Debian's packages put them. On other systems, libraries
# are named without their licenses.
set -eu
build=$1 engine=$2
title() { printf '\n\n==== %s\n\n' "$1"; }

echo "Hearth is under the license in the file LICENSE. It has the parts below, which have licenses of their own."
for license in "$engine"/LICENSE.*; do
  title "${license##*/LICENSE.}"
  cat "$license"
done
if [ -f "$build/page/notices.txt" ]; then
  title page
  cat "$build/page/notices.txt"
fi
command -v readelf >/dev/null || exit 0
set -- "$build/hearth" "$build"/libhearth.so "$build"/hearth-llama.so
libraries=$(readelf -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
if ! command -v dpkg >/dev/null; then
  title "libraries of the system"
  printf '%s\n' "$libraries"
  exit 0
fi
# Packages may name the files with or without /usr.
paths=$(ldd "$@" | grep -F "$(printf '%s\n' "$libraries" | sed 's/$/ =>/')" |
  sed -n 's|.* => \(/usr\)\{0,1\}\(/[^ ]*\) .*|\2 /usr\2|p' | sort -u)
# uthash is compiled in: it is a header.
# shellcheck disable=SC2086
for package in $(dpkg -S $paths 2>/dev/null | cut -d : -f 1 | sort -u) uthash-dev; do
  if [ -f "/usr/share/doc/$package/copyright" ]; then
    title "$package"
    cat "/usr/share/doc/$package/copyright"
  fi
done
