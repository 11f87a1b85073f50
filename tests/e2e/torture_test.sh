#!/bin/sh
# The server and hostile clients, with 1000 idle connections: see tests/torture/torture.mjs. IDLE=10000 is the long
# form; the system must allow as many open files.
. "$(dirname "$0")/lib.sh"
idle=${IDLE:-1000}
ulimit -n $((idle + 4000)) 2>/dev/null || ulimit -n "$(ulimit -H -n)"
memory=1
if grep -q '^HEARTH_SANITIZE:[^=]*=..*' "$build/CMakeCache.txt"; then memory=0; fi # its own memory is not what is measured
node "$source/tests/torture/torture.mjs" --hearth "$hearth" --model "$tiny" --work "$work" --idle "$idle" \
  --memory $memory ${HTH_SEED:+--seed "$HTH_SEED"} || fail "see above"
