#!/bin/sh
# A second process does not compute a prompt or its prefix again.
. "$(dirname "$0")/lib.sh"

check_model() { # MODEL WORDS
  model=$1
  rm -rf "$cache"
  words "$2" >"$work/prompt"
  for run in cold warm; do
    "$hearth" run "$model" -f "$work/prompt" --temp 0 -n 24 --json >"$work/$run.json" || fail "$run run of $model"
  done
  expect "cold hit" "$(field hit "$work/cold.json")" none
  expect "warm hit" "$(field hit "$work/warm.json")" exact
  expect "warm tier" "$(field tier "$work/warm.json")" disk
  expect "warm cached tokens" "$(field cached_tokens "$work/warm.json")" "$(field prompt_tokens "$work/cold.json")"
  expect "warm prefill evaluations" "$(field prefill_evaluations "$work/warm.json")" 0
  expect "text" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"
  expect "finish key" "$(field finish_key "$work/warm.json")" "$(field finish_key "$work/cold.json")"

  # Seeded sampling is a function of seed and position, cold or warm.
  "$hearth" run "$model" -f "$work/prompt" --seed 7 -n 24 --json --no-cache >"$work/cold.json"
  "$hearth" run "$model" -f "$work/prompt" --seed 7 -n 24 --json >"$work/warm.json"
  expect "seeded hit" "$(field hit "$work/warm.json")" exact
  expect "seeded text" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"
}

check_model "$tiny" 700
check_model "stub:" 300
if [ -r "$source/../shared/models/stories260K.gguf" ]; then check_model "$source/../shared/models/stories260K.gguf" 100; fi

# The common prefix of two prompts comes from the cache, and only new blocks are written.
rm -rf "$cache"
words 600 1 >"$work/first"
{ cut -c1-1500 "$work/first" | tr -d '\n'; words 300 2; } >"$work/second"
"$hearth" run "$tiny" -f "$work/first" --temp 0 -n 1 --json >"$work/first.json"
"$hearth" run "$tiny" -f "$work/second" --temp 0 -n 1 --json >"$work/second.json"
expect "hit of a shared beginning" "$(field hit "$work/second.json")" prefix
[ "$(field cached_tokens "$work/second.json")" -ge 256 ] || fail "no block of the shared beginning was used"
"$hearth" run "$tiny" -f "$work/second" --temp 0 -n 1 --json --no-cache >"$work/alone.json"
expect "its text" "$(field text "$work/second.json")" "$(field text "$work/alone.json")"

# Another salt shares nothing.
"$hearth" run "$tiny" -f "$work/first" --temp 0 -n 1 --json --cache-salt other >"$work/other.json"
expect "hit under another salt" "$(field hit "$work/other.json")" none

# Other K types are another layout.
"$hearth" run "$tiny" -f "$work/first" --temp 0 -n 1 --json --type-k q8_0 --type-v q8_0 >"$work/other.json"
expect "hit with another K type" "$(field hit "$work/other.json")" none

# A larger context keeps the cache warm.
"$hearth" run "$tiny" -f "$work/first" --temp 0 -n 1 --json -c 1500 >"$work/other.json"
expect "hit with another context size" "$(field hit "$work/other.json")" exact
