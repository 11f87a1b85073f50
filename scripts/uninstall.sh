#!/bin/sh
# uninstall.sh PREFIX - remove what `make install` put below PREFIX, by the list that it left there
set -eu
prefix=$1
list=share/hearth/installed
[ -f "$prefix/$list" ] || {
  echo "nothing to remove: there is no '$prefix/$list', which 'make install' writes; name the folder with PREFIX=" >&2
  exit 1
}
# Folders of this name, and those in them, are Hearth's own.
folders=$(awk -F / '{
  path = $1; own = 0
  for (i = 2; i < NF; i++) { path = path "/" $i; own = own || $i == "hearth"; if (own) print path }
}' "$prefix/$list" | sort -ru)
while IFS= read -r file; do rm -f "$prefix/$file"; done <"$prefix/$list"
for folder in $folders; do
  rmdir "$prefix/$folder" 2>/dev/null || echo "'$prefix/$folder' stays: it has other files" >&2
done
