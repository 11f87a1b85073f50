#!/bin/sh
# A few seconds of tests/soak/models.sh, which keep it working: 8 models of which 2 fit, with kills and reloads, then 5
# loads and unloads. Nothing in it depends on the speed of the machine but the number of requests.
here=$(dirname "$0")
. "$here/lib.sh"
SECONDS_TO_RUN=8 CYCLES=5 MODELS=8 FIT=2 CLIENTS=4 TROUBLE_MS=1500 KEEP="$work/models" SEED=${HTH_SEED:-} \
  "$here/../soak/models.sh" "$build" "$source"
