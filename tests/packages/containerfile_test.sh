#!/bin/sh
# containerfile_test.sh BUILD SOURCE - the statements of packaging/Containerfile agree with the packages that it installs
#
# It needs no container engine. The test packages/deb installs the same packages and runs the service as the same user.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# One statement a line; those of each stage in a file of their own.
sed -e '/^#/d' -e '/^$/d' "$source/packaging/Containerfile" | sed -e ':a' -e '/\\$/{N;s/\\\n */ /;ba' -e '}' |
  awk -v work="$work" '$1 == "FROM" { n++ } { print > (work "/stage" n) }'
[ -f "$work/stage2" ] && [ ! -f "$work/stage3" ] || fail "there are not two stages"
of() { sed -n "s/^$2 //p" "$work/stage$1"; }      # of STAGE STATEMENT
words() { printf '%s' "$1" | tr -d '[]",' ; }      # of a JSON list

# The first stage copies what is there, and makes the packages where the second one looks for them.
for path in $(of 1 COPY | sed 's/ [^ ]*$//'); do [ -e "$source/$path" ] || fail "COPY names '$path', which is not there"; done
grep -qx '/build-\*' "$source/.dockerignore" || fail "builds of the host are copied into the image"
made=$(of 1 WORKDIR)/$(sed -n 's/^	@tests\/packages\/deb_test.sh \([^ ]*\).*/\1/p' "$source/Makefile")
[ "$(of 1 RUN | tail -n 1)" = "make deb" ] && of 2 RUN | grep -qF "source=$made,target=/packages" ||
  fail "the packages are not taken from '$made'"
[ "$(of 1 FROM)" = "$(of 2 FROM) AS build" ] || fail "the stages are of different systems"
for package in $(of 2 RUN | grep -o '/packages/[a-z0-9]*_' | tr -d _); do
  grep -qx "Package: ${package#/packages/}" "$source/packaging/debian/control" || fail "there is no package $package"
done

# It runs as the packages' user, who owns the cache.
user=$(of 2 USER)
[ -n "$user" ] && [ "$user" != root ] || fail "the container runs as root"
grep -q "^u $user " "$source/packaging/debian/hearth.sysusers" || fail "the package makes no user '$user'"
home=$(sed -n "s/^u $user .*\" \([^ ]*\) .*/\1/p" "$source/packaging/debian/hearth.sysusers")
cache=$(of 2 ENV | tr ' ' '\n' | sed -n 's/^HEARTH_CACHE=//p')
of 2 ENV | tr ' ' '\n' | grep -qx "HOME=$home" || fail "HOME is not the user's '$home'"
[ "$(of 2 VOLUME)" = "$cache" ] && of 2 RUN | grep -qF "install -d -o $user -g $user -m 700 $cache" || fail "no volume '$cache' of $user"
grep -q "directory = \"$cache\"" "$source/packaging/hearth.conf" || fail "the configuration has another cache than '$cache'"

# Both commands are installed, and the server accepts its options, which listen where EXPOSE and HEALTHCHECK say.
entry=$(words "$(of 2 ENTRYPOINT)")
health=$(words "$(of 2 HEALTHCHECK | sed 's/.*CMD //')")
for command in "${entry%% *}" "${health%% *}"; do
  grep -qx "usr/bin/$command" "$source/packaging/debian/hearth.install" || fail "no package has the command '$command'"
done
case $entry in *'--config /etc/hearth/hearth.conf '*":$(of 2 EXPOSE)") ;; *) fail "'$entry' does not listen on port $(of 2 EXPOSE)" ;; esac
admin=$(sed -n 's/^admin = "\(.*\)";/\1/p' "$source/packaging/hearth.conf")
[ "$health" = "hearth ps --url $admin" ] || fail "the health check is '$health', and the server has '$admin'"
socket=${admin#unix:}
of 2 RUN | grep -q "install -d -o $user -g $user -m 700 .*${socket%/*}" || fail "$user has no folder for '$admin'"
options=$(echo "${entry#hearth }" | sed "s,/etc/hearth/hearth.conf,$source/packaging/hearth.conf,")
# shellcheck disable=SC2086
"$build/hearth" $options --admin "unix:$work/admin.sock" --models-dir "$source/models" --cache "$work/cache" --allow-public-without-keys --check ||
  fail "the server refuses '$entry'"
echo "the statements agree with the packages"
