#!/bin/sh
# fuzz.sh - run every fuzz target for some seconds, beginning from the kept corpus; findings end the script
set -eu
build=${1:-build-fuzz}
seconds=${2:-120}
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "$build"/tests/fuzz_*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  name=${program##*/fuzz_}
  mkdir -p "$work/$name" "$build/findings"
  echo "fuzzing $name for $seconds s"
  "$program" -max_total_time="$seconds" -print_final_stats=1 -max_len=65536 \
    -artifact_prefix="$build/findings/$name-" "$work/$name" "$top/tests/fuzz/corpus/$name" 2>&1 |
    grep -E 'ERROR|SUMMARY|stat::number_of_executed_units|DONE|findings' || true
  if ls "$build/findings/$name-"* >/dev/null 2>&1; then echo "findings in $build/findings"; exit 1; fi
done
