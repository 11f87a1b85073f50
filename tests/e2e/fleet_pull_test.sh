#!/bin/sh
# Nodes that fetch rows from each other, as docs/fleet.md says: see tests/fleet/pull.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
SERVER_URL=none # checks.mjs wants one
HEARTH=$hearth WORK=$work
export SERVER_URL HEARTH WORK
node "$source/tests/fleet/pull.mjs" || fail "see above"
none_left
