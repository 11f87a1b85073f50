#!/bin/sh
# fuzz.sh - run every fuzz target for some seconds, from the kept corpus; a finding ends the script
set -eu
build=${1:-build-fuzz}
seconds=${2:-120}
top=$(cd "$(dirname "$0")/.." && pwd)
HEARTH_ENGINE_DIRECTORY=$(cd "$build" && pwd) # of the stub, which models are loaded with
export HEARTH_ENGINE_DIRECTORY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
targets=0
for program in "$build"/tests/fuzz_*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  name=${program##*/fuzz_}
  targets=$((targets + 1))
  mkdir -p "$work/$name" "$build/findings"
  rm -f "$build/findings/$name-"*
  echo "fuzzing $name for $seconds s"
  "$program" -max_total_time="$seconds" -print_final_stats=1 -max_len=65536 \
    -artifact_prefix="$build/findings/$name-" "$work/$name" "$top/tests/fuzz/corpus/$name" >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; echo "fuzzing $name found something: see $build/findings"; exit 1; }
  grep -E 'DONE|number_of_executed_units' "$work/log"
done
[ $targets -gt 0 ] || { echo "no fuzz target in $build/tests; 'make fuzz' builds them"; exit 1; }
