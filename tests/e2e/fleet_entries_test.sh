#!/bin/sh
# Entries are killed while clients read kept streams, and every stream is the same as in peace: see tests/fleet/entries.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
stop_all() { for process in $(serve_processes); do kill -KILL "$process" 2>/dev/null || true; done; }
node "$source/tests/fleet/entries.mjs" --hearth "$hearth" --work "$work" ${HTH_SEED:+--seed "$HTH_SEED"} || fail "see above"
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
