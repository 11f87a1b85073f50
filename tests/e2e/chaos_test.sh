#!/bin/sh
# 50 streams whose workers are killed, stopped and starved, compared with the same streams in peace: see
# tests/chaos/chaos.mjs. STREAMS=1000 is the long form. KEEP=DIRECTORY keeps the logs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
directory=${KEEP:-$work/chaos}
streams=50 hang_ms=1200
if is_instrumented; then streams=30 hang_ms=5000; fi
mkdir -p "$directory"
node "$source/tests/chaos/chaos.mjs" --hearth "$hearth" --model "$tiny" --work "$directory" \
  --template "$(template CohereForAI-c4ai-command-r-plus-tool_use.jinja)" --streams "${STREAMS:-$streams}" --hang-ms $hang_ms \
  ${HTH_SEED:+--seed "$HTH_SEED"} || fail "see above"
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
