#!/bin/sh
# server.sh - every speed that the server must reach, measured in one run and printed as a table with the targets
#
# Usage: server.sh BUILD [--text|--json|--verbose]
#
# Prints Markdown as it stands in docs/performance.md, with machine and date; --text and --json print lines instead, and
# --verbose tells what was measured on the way, on standard error. Held against llama-server, built from the same source
# of the engine with the same options (peer.sh: ten minutes at the first run), on the same model, in the same run, the
# two in turns. About a quarter of an hour on two cores, which should have nothing else to do. PARTS is a list of what
# to measure, all by default: requests replies first_token restart swap overhead memory. ROUNDS (5) and SECONDS_EACH (3)
# say how long, SWAPS (20) how many swaps.
#
# QUICK=1 takes tiny models, short times and no peer: a test that everything works, with numbers that mean nothing.
set -eu
. "$(dirname "$0")/lib.sh"
need_node

peer=
large=tiny-llama
if [ "${QUICK:-0}" != 1 ]; then
  peer=$("$here/peer.sh")
  large=llama-1.1b
fi
large=$("$build/bench/make_model" "$large" 2>/dev/null)
node "$here/server.mjs" ${form:---text} $verbose --build "$build" --peer "$peer" \
  --tiny "$here/../models/hearth-tiny.gguf" --large "$large" --work "$work"
