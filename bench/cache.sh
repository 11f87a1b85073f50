#!/bin/sh
# cache.sh - every speed that the cache must reach, measured in one run and printed as a table with the targets
#
# Usage: cache.sh BUILD [--text|--json|--verbose]
#
# Prints the Markdown of docs/performance.md, with machine and date. --text and --json print lines instead; --verbose
# also prints the parts of the time, on standard error. It takes about four minutes on two cores, and a minute more to
# make the models; 10 GB of memory and 10 GB of disk. $TMPDIR should lie on the measured disk.
#
# QUICK=1 takes a tiny model and few rounds, to test the script; its numbers mean nothing.
set -eu
build=${1:-build}
form=--markdown
verbose=
shift $(($# > 0 ? 1 : 0))
for option in "$@"; do
  case $option in
    --text) form= ;;
    --json) form=--json ;;
    --verbose) verbose=--verbose ;;
    *) echo "cache.sh: unknown option '$option'; --text, --json or --verbose" >&2; exit 2 ;;
  esac
done
build=$(cd "$build" && pwd)
HEARTH_ENGINE_DIRECTORY=$build
GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-3000} # as the program `hearth` sets it: threads that wait leave the cores to others
export HEARTH_ENGINE_DIRECTORY GOMP_SPINCOUNT

if [ "${QUICK:-0}" = 1 ]; then
  large=tiny-llama small=tiny-llama
  hit_tokens=512 hit_rounds=3 long_tokens=2048 long_rounds=2
  pack_tokens=512 pack_rounds=2 replies='8 2 2' busy_replies='8 8 2'
  lookup_tokens=3000 lookup_rounds=3 turns='3 900' index_rows=1000 load_rounds=2
else
  large=llama-1.1b small=llama-15m
  hit_tokens=2048 hit_rounds=31 long_tokens=32768 long_rounds=11
  pack_tokens=2048 pack_rounds=31 replies='64 8 7' busy_replies='64 256 5'
  lookup_tokens=30000 lookup_rounds=500 turns='20 8000' index_rows=100000 load_rounds=9
fi

disk=$(mktemp -d "${TMPDIR:-/tmp}/hearth-bench-XXXXXX")
memory=$disk
if [ -d /dev/shm ] && [ -w /dev/shm ]; then memory=$(mktemp -d /dev/shm/hearth-bench-XXXXXX); fi
trap 'rm -rf "$disk" "$memory"' EXIT
trap 'exit 1' HUP INT TERM

large=$("$build/bench/make_model" "$large" 2>/dev/null)
small=$("$build/bench/make_model" "$small" 2>/dev/null)

run() {
  program=$1
  shift
  "$build/bench/$program" $form $verbose "$@"
  rm -rf "${disk:?}"/* "${memory:?}"/*
}

if [ "$form" = --markdown ]; then
  processor=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
  echo "Machine: $(getconf _NPROCESSORS_ONLN) cores of ${processor:-$(uname -m)}," \
    "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null)," \
    "$(uname -sr), $(df -T "$disk" 2>/dev/null | awk 'NR == 2 { print $2 }'). Date: $(date +%Y-%m-%d)."
  echo
  echo "| | Hearth | held against | result | target | met |"
  echo "| --- | --- | --- | --- | --- | --- |"
fi
# shellcheck disable=SC2086  # the lists are words
{
  run hit_bench "$large" $hit_tokens "$disk/kv" "$memory/kv" ram,ram_file,disk,cold $hit_rounds
  run hit_bench "$large" $long_tokens "$disk/kv" "$memory/kv" ram $long_rounds 1
  run parts_bench "$large" $pack_tokens "$disk" $pack_rounds
  set -- $replies
  run decode_bench "$large" "$1" "$2" "$disk/kv" "$3"
  set -- $busy_replies
  run decode_bench "$large" "$1" "$2" "$disk/kv" "$3"
  run lookup_bench $lookup_tokens "$disk/kv" $lookup_rounds
  run conversation_bench "$small" $turns "$disk/kv"
  run index_bench $index_rows "$disk/kv"
  run load_bench "$large" "$disk/kv" "$memory/weights" $load_rounds
}
