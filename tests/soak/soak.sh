#!/bin/sh
# soak.sh BUILD SOURCE - run a server for hours: see tests/soak/soak.mjs
#
#   HOURS, MINUTES, SECONDS_TO_RUN   duration (default: two hours)
#   SEED                             seed of all draws
#   THINK_MS, TROUBLE_MS             pauses of a client, and between two troubles
#   KEEP=DIRECTORY                   keeps all files
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/serve.sh"
seconds=${SECONDS_TO_RUN:-$((${MINUTES:-$((${HOURS:-2} * 60))} * 60))}
directory=${KEEP:-$work/soak}
hang_ms=3000
if is_instrumented; then
  hang_ms=10000
  # Workers must die of SIGSEGV; a sanitizer would end them with exit status 1.
  export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0" TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS }handle_segv=0"
fi
ulimit -c 0 # what is made to crash leaves no core
mkdir -p "$directory"
nice -n 15 node "$source/tests/soak/soak.mjs" --hearth "$hearth" --model "$tiny" --work "$directory" --seconds "$seconds" \
  --hang-ms $hang_ms ${SEED:+--seed "$SEED"} ${THINK_MS:+--think-ms "$THINK_MS"} ${TROUBLE_MS:+--trouble-ms "$TROUBLE_MS"} \
  ${SAMPLE_MS:+--sample-ms "$SAMPLE_MS"} || fail "see above"
left=$(work=$directory; serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
