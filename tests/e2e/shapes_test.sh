#!/bin/sh
# Models of every kind, with random weights: a second process restores the prompt and gives the same reply.
. "$(dirname "$0")/lib.sh"
export HEARTH_MODEL_CACHE=$work/models
{ words 260; echo; echo; } >"$work/prompt" # a line end, so that what follows does not change its last token

for shape in llama-15m tiny-llama tiny-window tiny-recurrent tiny-hybrid tiny-hybrid-window tiny-qwen35; do
  model=$("$build/bench/make_model" "$shape" 2>/dev/null) || fail "make_model $shape"
  rm -rf "$cache"
  for run in cold warm; do
    "$hearth" run "$model" -f "$work/prompt" --temp 0 -n 8 --json >"$work/$run.json" 2>"$work/err" ||
      fail "$run run of $shape: $(cat "$work/err")"
    [ ! -s "$work/err" ] || fail "$run run of $shape complains: $(cat "$work/err")"
  done
  expect "warm hit of $shape" "$(field hit "$work/warm.json")" exact
  expect "prefill evaluations of $shape" "$(field prefill_evaluations "$work/warm.json")" 0
  expect "text of $shape" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"

  # A longer prompt goes on from what is known.
  { cat "$work/prompt"; words 20 9; } >"$work/longer"
  "$hearth" run "$model" -f "$work/longer" --temp 0 -n 8 --json >"$work/longer.json"
  [ "$(field cached_tokens "$work/longer.json")" -gt 100 ] ||
    fail "$shape: only $(field cached_tokens "$work/longer.json") tokens of a longer prompt were known"
done

# The same seed gives the same file.
first=$(sha256sum <"$("$build/bench/make_model" tiny-llama 2>/dev/null)")
rm -rf "$HEARTH_MODEL_CACHE"
expect "the model made again" "$(sha256sum <"$("$build/bench/make_model" tiny-llama 2>/dev/null)")" "$first"
