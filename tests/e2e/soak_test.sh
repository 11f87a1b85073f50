#!/bin/sh
# Twenty seconds of the soak (tests/soak/soak.sh), which keep it working. This is too short to judge the growth of
# memory; all other checks are the same.
here=$(dirname "$0")
. "$here/lib.sh"
SECONDS_TO_RUN=20 THINK_MS=600 TROUBLE_MS=2500 SAMPLE_MS=1000 KEEP="$work/soak" SEED=${HTH_SEED:-} \
  "$here/../soak/soak.sh" "$build" "$source"
