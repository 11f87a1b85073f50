#!/bin/sh
# What another node adds to a request, and what the death of a node costs streams: see bench/fleet.mjs. With --many
# first: what a front of many nodes costs, and restarts under load: see bench/fleet_many.mjs. With --pull first: a prompt
# whose rows come from the other node: see bench/fleet_pull.mjs.
# Usage: bench/fleet.sh [BUILD] [--requests N] [--streams N] [--engine MODEL]
#        bench/fleet.sh BUILD --many [--nodes N] [--seconds S] [--clients N]
#        bench/fleet.sh BUILD --pull --model GGUF [--tokens N] [--rounds N] [--link 1gbit|slow|stall|die]
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$source/build}" && pwd)
[ $# = 0 ] || shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=fleet
if [ "${1:-}" = --many ]; then
  program=fleet_many
  shift
elif [ "${1:-}" = --pull ]; then
  program=fleet_pull
  shift
fi
node "$source/bench/$program.mjs" --hearth "$build/hearth" --work "$work" "$@"
