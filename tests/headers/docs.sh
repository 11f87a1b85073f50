#!/bin/sh
# docs.sh - links between the documents lead somewhere, lines end at 120 columns (but for tables and code), and the
#   picture shows the measured numbers
#
# usage: docs.sh SOURCE
set -eu
export LC_ALL=C
cd "$1"
. tests/headers/links.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "$*"; failed=1; }

scripts/picture.sh "$work"
for picture in cold-warm-light.svg cold-warm-dark.svg; do
  cmp -s "$work/$picture" "docs/pictures/$picture" || fail "docs/pictures/$picture is old; run scripts/picture.sh"
done

# anchors FILE: of its headings, as the usual hosts make them
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print tolower($0) }' "$1" |
    sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

for page in README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs/*.md; do
  links "$page" >"$work/links"
  while read -r link; do
    target=${link%%#*}
    if [ "$target" ]; then file=$(dirname "$page")/$target; else file=$page; fi
    if ! [ -e "$file" ]; then
      fail "$page: the link '$link' leads nowhere"
    elif [ "$link" != "$target" ] && ! anchors "$file" | grep -qxF -e "${link#*#}"; then
      fail "$page: '$link' names no heading of $file"
    fi
  done <"$work/links"
  awk -v page="$page" '
    /^```/ { code = !code }
    { gsub(/[\200-\277]/, "") } # a character is counted once
    length > 120 && !code && !/^( *[|]|    )/ { print page ":" NR ": " length " columns" }' "$page" >"$work/long"
  [ ! -s "$work/long" ] || fail "$(cat "$work/long")"
done

# A page that the index does not name is found by nobody.
for page in docs/*.md; do
  [ "$page" = docs/README.md ] || links docs/README.md | grep -qx "$(basename "$page")" || fail "docs/README.md has no link to $page"
done
exit $failed
