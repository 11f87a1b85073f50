#!/bin/sh
# Nodes that fetch rows over bad links, and rows of models with recurrent state: see tests/fleet/links.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
stop_all() { for process in $(serve_processes); do kill -KILL "$process" 2>/dev/null || true; done; }
SERVER_URL=none # checks.mjs wants one
HEARTH=$hearth WORK=$work HEARTH_MODEL_CACHE=$work/models MODELS=
export SERVER_URL HEARTH WORK HEARTH_MODEL_CACHE MODELS
for shape in tiny-llama tiny-window tiny-recurrent tiny-hybrid tiny-hybrid-window tiny-qwen35; do
  model=$("$build/bench/make_model" "$shape" 2>/dev/null) || fail "make_model $shape"
  MODELS="$MODELS $shape=$model"
done
node "$source/tests/fleet/links.mjs" || fail "see above"
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
