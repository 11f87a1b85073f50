#!/bin/sh
# Twenty seconds of a server's life with all that can happen in it, so that the soak (tests/soak/soak.sh, hours of it)
# stays fit to run. Whether memory grows cannot be told in so short a time; all else is judged as there.
here=$(dirname "$0")
. "$here/lib.sh"
SECONDS_TO_RUN=20 THINK_MS=600 TROUBLE_MS=2500 SAMPLE_MS=1000 KEEP="$work/soak" SEED=${HTH_SEED:-} \
  "$here/../soak/soak.sh" "$build" "$source"
