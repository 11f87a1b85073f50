#!/bin/sh
# soak.sh BUILD SOURCE - hours of a server's life: tests/soak/soak.mjs. HOURS or MINUTES (default: 2 hours) or SECONDS say how
# long, SEED which draws, THINK_MS how long a client thinks between two requests, KEEP=DIRECTORY keeps what was written.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/serve.sh"
seconds=${SECONDS_TO_RUN:-$((${MINUTES:-$((${HOURS:-2} * 60))} * 60))}
directory=${KEEP:-$work/soak}
ulimit -c 0
mkdir -p "$directory"
status=0
nice -n 15 node "$source/tests/soak/soak.mjs" --hearth "$hearth" --model "$tiny" --work "$directory" --seconds "$seconds" \
  ${SEED:+--seed "$SEED"} ${THINK_MS:+--think-ms "$THINK_MS"} ${TROUBLE_MS:+--trouble-ms "$TROUBLE_MS"} ${SAMPLE_MS:+--sample-ms "$SAMPLE_MS"} || status=$?
[ "$status" = 0 ] || fail "see above"
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
