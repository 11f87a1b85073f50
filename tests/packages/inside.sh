#!/bin/sh
# inside.sh - the part of deb_test.sh inside the new system, as root, in a chroot without systemd, with curl, logrotate,
# and man
set -eu
cd /test
fail() { echo "FAILED: $*" >&2; cat /test/log >&2 2>/dev/null || true; exit 1; }
expect() { [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"; }
export DEBIAN_FRONTEND=noninteractive HEARTH_CACHE=/test/cache
# The user of the service comes from sysusers.d; systemd itself is not needed.
install="apt-get install -y -q --no-install-recommends"
# Files with the name: the same before the packages come as after they are purged. man keeps pages for itself.
state() {
  find / -xdev \( -path /test -o -path /proc -o -path /sys -o -path /tmp -o -path /var/cache/man \) -prune -o \
    -name '*hearth*' -print | sort
}
state >before

# dpkg -i lacks the dependencies; apt adds them.
dpkg -i ./hearth_*.deb ./libhearth1_*.deb >log 2>&1 && fail "the packages name no dependency"
$install -f >log 2>&1 || fail "the dependencies of the server cannot be installed"
expect "the state of the package" "$(dpkg-query -W -f '${Status}' hearth)" "install ok installed"
hearth version >log || fail "the command does not run"
expect "the version of the command" "$(sed -n 's/^hearth //p' log)" "$(dpkg-query -W -f '${Version}' hearth)"
commands=$(hearth help --names)
pages="hearth.1 hearth.conf.5"
for command in $commands; do pages="$pages hearth-$command.1"; done
for page in $pages; do
  [ -n "$(man -w "${page##*.}" "${page%.*}")" ] || fail "there is no manual page $page"
done
man -P cat --warnings hearth.conf 2>warnings | grep -q residency || fail "hearth.conf(5) lacks keys"
for file in bash-completion/completions/hearth zsh/vendor-completions/_hearth fish/vendor_completions.d/hearth.fish; do
  for command in $commands; do
    grep -qw "$command" "/usr/share/$file" || fail "the completion $file does not know '$command'"
  done
done
bash -n /usr/share/bash-completion/completions/hearth || fail "bash does not read its completion"
[ ! -s warnings ] || fail "hearth.conf(5) is no correct page: $(cat warnings)"
dpkg-query -W -f '${Conffiles}' hearth | grep -q ' /etc/hearth/hearth.conf ' || fail "the configuration is no conffile"
for package in hearth libhearth1; do
  zgrep -q 'Niels Lohmann' /usr/share/doc/$package/NOTICE.gz || fail "$package lacks the licenses of what is linked"
done
logrotate -d /etc/logrotate.d/hearth >log 2>&1 || fail "logrotate refuses its file"

# The unit's commands, as its user, in the folders that systemd would make.
unit=/lib/systemd/system/hearth.service
command_of() { sed -n "s/^$1=//p" $unit; }
expect "the user of the service" "$(getent passwd hearth | cut -d: -f6-)" "/var/lib/hearth:/usr/sbin/nologin"
story=$(yes 'the fox ran over a hill and saw an old river' | head -n 20)
printf '{"model": "hearth-tiny", "prompt": "%s", "max_tokens": 8, "temperature": 0}' "$(echo $story)" >request
install -d -o hearth -g hearth /var/lib/hearth /var/cache/hearth /var/log/hearth
install -d -m 700 -o hearth -g hearth /run/hearth
as_service='setpriv --reuid hearth --regid hearth --clear-groups env -i HOME=/var/lib/hearth'
# shellcheck disable=SC2046
$as_service $(command_of ExecStartPre) >log 2>&1 || fail "the configuration of the package is wrong"
# shellcheck disable=SC2046
$as_service $(command_of ExecStart) --listen 127.0.0.1:0 --port-file /run/hearth/ports >log 2>&1 &
server=$!
trap 'kill -KILL $server 2>/dev/null' EXIT
# wait_for WHAT COMMAND...: up to a minute
wait_for() {
  what=$1; shift
  i=0
  until "$@"; do
    i=$((i + 1))
    [ $i -lt 600 ] && kill -0 $server || fail "$what"
    sleep 0.1
  done
}
wait_for "the server does not listen" [ -s /run/hearth/ports ]
url=http://127.0.0.1:$(sed -n 1p /run/hearth/ports)
has_model() { curl -sf "$url/v1/models" | grep -q hearth-tiny; }
cp hearth-tiny.gguf /var/lib/hearth/models/
wait_for "the server does not find its model" has_model
curl -s "$url/v1/completions" -d @request >reply || fail "the server does not answer"
grep -q '"completion_tokens": *[1-9]' reply || fail "the server answers $(cat reply)"
# The operators' pages are for root and the server's user.
admin=/run/hearth/admin.sock
expect "the mode of the operators' socket" "$(stat -c '%U %a' $admin)" "hearth 600"
hearth ps --url unix:$admin | grep -q hearth-tiny || fail "hearth ps does not show the model"
setpriv --reuid nobody --regid nogroup --clear-groups hearth ps --url unix:$admin >log 2>&1 &&
  fail "every account reaches the operators' pages"
kill -TERM $server
wait $server || fail "the server ends with $?"
trap - EXIT
[ -n "$(find /var/cache/hearth -name '*.kvc')" ] || fail "nothing was kept in the cache"
rm -r /run/hearth # which systemd removes

# A program of somebody else, compiled here unless it came with this script.
compiler='gcc libc6-dev pkg-config'
if [ -f complete ]; then compiler=; fi
# shellcheck disable=SC2086
$install ./libhearth-dev_*.deb $compiler >log 2>&1 || fail "libhearth-dev cannot be installed"
# shellcheck disable=SC2046
[ -f complete ] || cc complete.c -o complete $(pkg-config --cflags --libs hearth) 2>log || fail "a program does not compile"
./complete hearth-tiny.gguf 'Once upon a time' >reply 2>log || fail "a program does not run"
[ -s reply ] || fail "a program says nothing"

# Removing keeps configuration and data; purging leaves what the operator put there.
dpkg -r hearth libhearth-dev libhearth1 >log 2>&1 || fail "the packages cannot be removed"
[ -f /etc/hearth/hearth.conf ] && [ -d /var/cache/hearth ] || fail "removing takes the configuration or the cache"
dpkg -P hearth libhearth-dev libhearth1 >log 2>&1 || fail "the packages cannot be purged"
[ -f /var/lib/hearth/models/hearth-tiny.gguf ] || fail "purging takes models of the operator"
rm -r /var/lib/hearth
state >after
diff before after || fail "purging leaves files"
