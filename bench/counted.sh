#!/bin/sh
# counted.sh - compare the instructions of hot paths with those of counts.txt, or write them anew
#
# Usage: counted.sh BUILD [--write]
#
# Counts do not depend on the speed or the load of the machine, so the test shows a slow-down without a clock. A path
# may take 5% more than its count. The first line of counts.txt names compiler, processor and C library; with others, a
# path may take 50% more. After a change that is worth its instructions, and after one that saves many, run
# `make counts`, and commit the file.
set -eu
build=$(cd "${1:-build}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
counts=$here/counts.txt
work=$(mktemp -d "${TMPDIR:-/tmp}/hearth-counted-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

mkdir "$work/rows"
if ! env -i PATH="$PATH" HEARTH_ENGINE_DIRECTORY="$build" valgrind --tool=callgrind --collect-atstart=no \
  --callgrind-out-file="$work/out" "$build/bench/counted" "$work/rows" >"$work/toolchain" 2>"$work/log"; then
  cat "$work/log" >&2
  exit 1
fi

# Each dump names its path and ends with the instructions of all threads.
# shellcheck disable=SC2046,SC2012  # out.1, out.2, ...
(
  sed 's/^/# /' "$work/toolchain"
  cd "$work"
  awk '/^desc: Trigger: Client Request: / { path = substr($0, 32) } /^totals: / && path { print $2 "\t" path; path = "" }' \
    $(ls out.* | sort -t . -k 2 -n)
) >"$work/counts"

if [ "${2:-}" = --write ]; then
  cp "$work/counts" "$counts"
  cat "$counts"
  exit 0
fi

percent=5
if [ "$(sed 1q "$counts")" != "$(sed 1q "$work/counts")" ]; then
  percent=50
  printf 'counted here: %s\nrecorded:     %s\nSo a path may take %d%% more.\n' "$(sed 1q "$work/counts")" \
    "$(sed 1q "$counts")" $percent | sed 's/# //'
fi
awk -F '\t' -v percent=$percent '
  /^#/ { next }
  NR == FNR { recorded[$2] = $1; next }
  {
    n++
    if (!($2 in recorded)) { print "no count of \"" $2 "\" is recorded: run `make counts`"; bad = 1; next }
    change = 100 * ($1 - recorded[$2]) / recorded[$2]
    printf "%11d %+6.1f%%  %s\n", $1, change, $2
    if (change > percent) { print "  this is more than " percent "% above " recorded[$2]; bad = 1 }
    if (change < -percent) print "  this is better than recorded: run `make counts`"
    delete recorded[$2]
  }
  END {
    for (path in recorded) { print "\"" path "\" was not counted"; bad = 1 }
    exit bad
  }' "$counts" "$work/counts"
