#!/bin/sh
# suite.sh - the benchmarks of `make bench`: Hearth beside llama-server, with a report to look at
#
# Usage: suite.sh BUILD [OUTPUT]
#
# Starts both servers on the same model, runs the scenarios of scenarios.mjs, and writes results.json, index.html,
# README.md and pictures to OUTPUT (docs/benchmarks). llama-server is built once from the source of the engine (peer.sh).
# PARTS names the scenarios, all by default. A part that fails is named in the report with the reason, and the script
# ends with 1. PEER=0 leaves out llama-server.
#
# QUICK=1 takes a tiny model and few rounds, and no llama-server without PEER=1: a test that everything works, with
# numbers that mean nothing.
set -eu
build=$(cd "${1:-build}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
output=${2:-$here/../docs/benchmarks}
command -v node >/dev/null || { echo "suite.sh: node is missing, which drives the servers" >&2; exit 1; }

peer=
shape=tiny-llama
if [ "${QUICK:-0}" = 1 ]; then PEER=${PEER:-0}; else shape=llama-15m; fi
if [ "${PEER:-1}" != 0 ]; then peer=$("$here/peer.sh") || peer=; fi
model=$("$build/bench/make_model" $shape 2>/dev/null)
work=$(mktemp -d "${TMPDIR:-/tmp}/hearth-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0
node "$here/suite.mjs" --build "$build" --peer "$peer" --model "$model" --tiny "$here/../models/hearth-tiny.gguf" \
  --work "$work" --output "$output" || status=$?
exit $status
