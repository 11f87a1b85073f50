#!/bin/sh
# A fleet whose entries die, as docs/fleet.md says: see tests/fleet/entry.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
SERVER_URL=none # checks.mjs wants one
HEARTH=$hearth WORK=$work
export SERVER_URL HEARTH WORK
node "$source/tests/fleet/entry.mjs" || fail "see above"
none_left
