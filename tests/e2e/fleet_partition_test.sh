#!/bin/sh
# Five nodes and their store fall into three and two, and heal: see tests/fleet/partition.mjs.
#
# The networks are the test's own: two bridges, and a namespace for each node. CUT_MS: how long the cut lasts.
. "$(dirname "$0")/own_network.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/nodes.sh"
node "$source/tests/fleet/partition.mjs" --hearth "$hearth" --work "$work/nodes" ${CUT_MS:+--cut-ms "$CUT_MS"} || fail "see above"
none_left
