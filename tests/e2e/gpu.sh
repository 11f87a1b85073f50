#!/bin/sh
# Usage: gpu.sh BUILD SOURCE vectors|run
#
# A state that is restored on this machine's GPUs goes on like a computed one. Exits with 77, "skipped", without a GPU.
# tests/gpu.cmake registers it if the engine has a back end for GPUs; for `make vulkan-test` the CPU computes the GPU.
. "$(dirname "$0")/lib.sh"

"$hearth" version >"$work/version"
if ! grep -Eq '^(CUDA|ROCm|MUSA|Vulkan|Metal|MTL) +[^ ]+, ' "$work/version"; then
  echo "skipped, there is no GPU: $(cat "$work/version")"
  exit 77
fi
cat "$work/version"

vectors() {
  for file in restore join; do
    HTH_TEST_GPU=1 HEARTH_ENGINE_DIRECTORY="$build" "$build/tests/test_vectors" $file || fail "vectors/$file"
  done
}

# A prompt of HTH_TEST_WORDS words; `make vulkan-test` has few, since Mesa 22.3.6 dies with long ones (docs/engine.md).
run() {
  n=${HTH_TEST_WORDS:-500}
  words "$n" >"$work/prompt"
  for run in cold warm; do
    "$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 24 --json >"$work/$run.json" || fail "$run run"
  done
  expect "cold hit" "$(field hit "$work/cold.json")" none
  expect "warm hit" "$(field hit "$work/warm.json")" exact
  expect "warm prefill evaluations" "$(field prefill_evaluations "$work/warm.json")" 0
  expect "text" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"

  # A longer prompt goes on from the rows that were restored into the device's memory.
  { cat "$work/prompt"; words $((n / 4)) 2; } >"$work/longer"
  "$hearth" run "$tiny" -f "$work/longer" --temp 0 -n 24 --json >"$work/longer.json"
  expect "hit of a longer prompt" "$(field hit "$work/longer.json")" prefix
  "$hearth" run "$tiny" -f "$work/longer" --temp 0 -n 24 --json --no-cache >"$work/alone.json"
  expect "its text" "$(field text "$work/longer.json")" "$(field text "$work/alone.json")"

  # What it computed is not the CPU's.
  "$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 1 --json --gpu-layers 0 >"$work/other.json"
  expect "hit on the CPU" "$(field hit "$work/other.json")" none

  # Who asks for GPUs and gets none is told.
  if grep -q '^CUDA ' "$work/version"; then
    CUDA_VISIBLE_DEVICES='' "$hearth" run "$tiny" -p 'Once' -n 1 --no-cache 2>"$work/err" >&2 || fail "a run without GPUs"
    grep -q 'the CPU computes the model' "$work/err" || fail "nothing tells that there is no GPU: $(cat "$work/err")"
  fi

  # Workers find the device in their sandbox: a worker on the CPU does not know the rows of the one before.
  . "$source/tests/e2e/serve.sh"
  printf '{"prompt": "%s", "max_tokens": 8, "temperature": 0}' "$(words "$n" 3)" >"$work/body"
  for layers in -1 0; do
    serve -m "$tiny" --gpu-layers "$layers"
    curl -s -o "$work/reply" "$url/v1/completions" -d "@$work/body"
    grep -q '"completion_tokens": *8' "$work/reply" || fail "not a completion of 8 tokens: $(cat "$work/reply")"
    grep -q '"hit": *"none"' "$work/reply" || fail "$layers layers on GPUs have rows of another device: $(cat "$work/reply")"
    [ "$layers" = 0 ] || serve_stop
  done
  serve_stop
}

"$3"
