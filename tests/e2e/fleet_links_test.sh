#!/bin/sh
# Nodes that fetch rows over bad links, and rows of models with recurrent state: see tests/fleet/links.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
stop_all() { for process in $(serve_processes); do kill -KILL "$process" 2>/dev/null || true; done; }
SERVER_URL=none # checks.mjs wants one
HEARTH=$hearth WORK=$work
export SERVER_URL HEARTH WORK
node "$source/tests/fleet/links.mjs" || fail "see above"
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
