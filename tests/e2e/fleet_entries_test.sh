#!/bin/sh
# Entries are killed while clients read kept streams, and every stream is the same as in peace: see tests/fleet/entries.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
node "$source/tests/fleet/entries.mjs" --hearth "$hearth" --work "$work" ${HTH_SEED:+--seed "$HTH_SEED"} || fail "see above"
none_left
