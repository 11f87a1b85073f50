#!/bin/sh
# Nodes that fetch rows over bad links, and rows of models with recurrent state: see tests/fleet/links.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
SERVER_URL=none # checks.mjs wants one
HEARTH=$hearth WORK=$work HEARTH_MODEL_CACHE=$work/models MODELS=
export SERVER_URL HEARTH WORK HEARTH_MODEL_CACHE MODELS
for shape in tiny-llama tiny-window tiny-recurrent tiny-hybrid tiny-hybrid-window tiny-qwen35; do
  model=$("$build/bench/make_model" "$shape" 2>/dev/null) || fail "make_model $shape"
  MODELS="$MODELS $shape=$model"
done
node "$source/tests/fleet/links.mjs" || fail "see above"
none_left
