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
. "$(dirname "$0")/lib.sh"
set_up_programs

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

large=$("$build/bench/make_model" "$large" 2>/dev/null)
small=$("$build/bench/make_model" "$small" 2>/dev/null)

machine "$(df -T "$disk" 2>/dev/null | awk 'NR == 2 { print $2 }')"
head_of
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
