# lib.sh - shared functions of the end-to-end tests. Sourced with the arguments BUILD SOURCE.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
hearth=$build/hearth
tiny=$source/models/hearth-tiny.gguf
work=$(mktemp -d)

fail() { echo "FAILED: $*" >&2; exit 1; }

# The findings of a sanitizer in a worker are only in its server's log, so a test fails if its files have findings.
refuse_reports() {
  report='(WARNING|ERROR|FATAL): [A-Z][A-Za-z]+Sanitizer|[0-9]: runtime error: '
  found=$(grep -rslE --exclude='*.kvc' --exclude='*.mdb' "$report" "$work" | head -n 1)
  [ -z "$found" ] || fail "a sanitizer reports in $found: $(grep -aE -A 80 "$report" "$found" | head -n 160)"
}

# A test with processes to stop defines the function `stop_all`.
stop_all() { :; }
end() {
  status=$?
  trap - EXIT
  set +e
  stop_all
  (refuse_reports) || status=1
  umount "$work/full" 2>/dev/null
  chmod -R u+w "$work" 2>/dev/null
  rm -rf "$work"
  exit "$status"
}
trap end EXIT
trap 'exit 1' INT TERM
cache=$work/cache
export HEARTH_CACHE=$cache

# field NAME FILE: one value of the JSON that `hearth run --json` prints
field() { sed -n "s/^  \"$1\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}$/\1/p" "$2"; }

# await WHAT COMMAND...: until the command succeeds, such as `grep -q PATTERN FILE` or one of the next. It is tried every
# 20 ms. After two minutes the test fails and shows its files.
await() {
  awaited=$1 await_tries=0
  shift
  until "$@"; do
    await_tries=$((await_tries + 1))
    [ "$await_tries" -lt 6000 ] || fail "$awaited: it does not come; $(show_files)"
    sleep 0.02
  done
}
# of PID COMMAND...: the command, for `await`; the test fails if that process has ended and the command still fails
of() {
  of_pid=$1 of_lives=yes
  shift
  kill -0 "$of_pid" 2>/dev/null || of_lives=
  if "$@"; then return; fi
  [ "$of_lives" ] || fail "$awaited: the process has ended without it; $(show_files)"
  return 1
}
not() { ! "$@"; }
# gives TEXT COMMAND...: the command prints the text
gives() {
  given=$1
  shift
  [ "$("$@")" = "$given" ]
}
# at_least N COMMAND...: the command prints such a number
at_least() {
  least=$1
  shift
  [ "$("$@")" -ge "$least" ]
}
show_files() {
  for shown in "$work"/*; do
    if [ -f "$shown" ] && grep -Iq . "$shown"; then echo "${shown##*/}:"; tail -n 20 "$shown"; fi
  done
}

# expect WHAT ACTUAL EXPECTED
expect() { [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"; }

# said PATTERN: the last command printed it on standard error
said() { grep -q -e "$1" "$work/err" || fail "'$1' is not said, but: $(cat "$work/err")"; }

# refuse STATUS PATTERN ARGUMENTS...: `hearth` with these arguments ends with that status and prints the pattern
refuse() {
  expected=$1 pattern=$2
  shift 2
  status=0
  "$hearth" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
  expect "exit code of '$*' ($(cat "$work/err"))" "$status" "$expected"
  said "$pattern"
}

# A text of N words, different for every seed.
words() {
  awk -v n="$1" -v seed="${2:-1}" 'BEGIN { srand(seed); split("the fox ran over a hill and saw an old river where three birds sang about rain stone bread light", w, " ");
    for (i = 0; i < n; i++) printf "%s%s", w[int(rand() * 20) + 1], i % 12 == 11 ? ". " : " " }'
}
