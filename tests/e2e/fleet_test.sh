#!/bin/sh
# Several nodes on this machine as one fleet, as docs/fleet.md says: see tests/fleet/fleet.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
FLEET_KEY=$("$hearth" key new --name one --salt one --file "$work/keys.conf" 2>/dev/null)
OTHER_KEY=$("$hearth" key new --name two --salt two --file "$work/keys.conf" 2>/dev/null)
SERVER_URL=none # checks.mjs wants one
HEARTH=$hearth WORK=$work MODEL=$tiny FLEET_KEYS=$work/keys.conf
export FLEET_KEY OTHER_KEY SERVER_URL HEARTH WORK MODEL FLEET_KEYS
node "$source/tests/fleet/fleet.mjs" || fail "see above"
none_left
