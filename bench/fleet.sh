#!/bin/sh
# What another node adds to a request, and what the death of a node costs streams: see bench/fleet.mjs.
# Usage: bench/fleet.sh [BUILD] [--requests N] [--streams N] [--engine MODEL]
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$source/build}" && pwd)
[ $# = 0 ] || shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
node "$source/bench/fleet.mjs" --hearth "$build/hearth" --work "$work" "$@"
