#!/bin/sh
# models.sh BUILD SOURCE - many models in memory for few: see tests/soak/models.mjs
#
#   MINUTES, SECONDS_TO_RUN   duration of the traffic (default: ten minutes)
#   CYCLES                    loads and unloads of one model afterwards (default: 1000)
#   MODELS, FIT, CLIENTS      number of models, of those that fit, of clients (default: 50, 5, 8)
#   TROUBLE_MS                mean time between kills, reloads and orders (default: 4000)
#   SEED                      seed of all draws
#   KEEP=DIRECTORY            keeps all files
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/serve.sh"
directory=${KEEP:-$work/models}
mkdir -p "$directory"
nice -n 15 node "$source/tests/soak/models.mjs" --hearth "$hearth" --make-model "$build/bench/make_model" --work "$directory" \
  --seconds "${SECONDS_TO_RUN:-$((${MINUTES:-10} * 60))}" --cycles "${CYCLES:-1000}" \
  ${MODELS:+--models "$MODELS"} ${FIT:+--fit "$FIT"} ${CLIENTS:+--clients "$CLIENTS"} ${TROUBLE_MS:+--trouble-ms "$TROUBLE_MS"} \
  ${SEED:+--seed "$SEED"} || fail "see above"
left=$(work=$directory; serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
