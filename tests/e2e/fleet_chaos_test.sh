#!/bin/sh
# 30 streams through a fleet of three nodes, two of which are killed, stopped, hung and drained, compared with the same
# streams of one server in peace: see tests/fleet/chaos.mjs. STREAMS=1000 is the long form. KEEP=DIRECTORY keeps the logs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
directory=${KEEP:-$work/fleet}
mkdir -p "$directory"
node "$source/tests/fleet/chaos.mjs" --hearth "$hearth" --work "$directory" --streams "${STREAMS:-30}" ${HTH_SEED:+--seed "$HTH_SEED"} ||
  fail "see above"
none_left
