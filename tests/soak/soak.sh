#!/bin/sh
# soak.sh BUILD SOURCE - hours of a server's life: tests/soak/soak.mjs
#
#   HOURS, MINUTES, SECONDS_TO_RUN   how long; two hours where nothing is said
#   SEED                             which draws
#   THINK_MS, TROUBLE_MS             pauses of a client, and between two troubles: how hard it is on the machine
#   KEEP=DIRECTORY                   keeps what was written
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/serve.sh"
seconds=${SECONDS_TO_RUN:-$((${MINUTES:-$((${HOURS:-2} * 60))} * 60))}
directory=${KEEP:-$work/soak}
hang_ms=3000
if is_instrumented; then
  hang_ms=10000
  # What is made to crash dies of the signal, as it does elsewhere; a sanitizer would end it with exit status 1.
  export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0" TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS }handle_segv=0"
fi
ulimit -c 0 # what is made to crash leaves no core
mkdir -p "$directory"
nice -n 15 node "$source/tests/soak/soak.mjs" --hearth "$hearth" --model "$tiny" --work "$directory" --seconds "$seconds" \
  --hang-ms $hang_ms ${SEED:+--seed "$SEED"} ${THINK_MS:+--think-ms "$THINK_MS"} ${TROUBLE_MS:+--trouble-ms "$TROUBLE_MS"} \
  ${SAMPLE_MS:+--sample-ms "$SAMPLE_MS"} || fail "see above"
left=$(work=$directory; serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
