#!/bin/sh
# Five nodes and their store fall into three and two, and heal: see tests/fleet/partition.mjs.
#
# The networks are the test's own: two bridges, and a namespace for each node. CUT_MS: how long the cut lasts.
if [ -z "${OWN_NETWORK:-}" ]; then
  if ! command -v ip >/dev/null || ! unshare -rn true 2>/dev/null; then
    echo "skipped: this system gives no namespaces of networks, or has no 'ip'"
    exit 77
  fi
  OWN_NETWORK=1 exec unshare -rn sh "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
stop_all() { for process in $(serve_processes); do kill -KILL "$process" 2>/dev/null || true; done; }
node "$source/tests/fleet/partition.mjs" --hearth "$hearth" --work "$work/nodes" ${CUT_MS:+--cut-ms "$CUT_MS"} || fail "see above"
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
