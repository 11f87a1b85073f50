#!/bin/sh
# restore.sh - an exact hit in a new process against memcpy, on a random-weight model of 1.1 billion parameters
#
# Usage: restore.sh BUILD [SHAPE [TOKENS...]]. Makes the model when it is not there (about a minute), computes prompts
# of 2048 and of 2000 tokens once (about 20 s each on 2 cores) and restores each three times in new processes.
set -eu
build=${1:-build}
shape=${2:-llama-1.1b}
if [ $# -gt 2 ]; then shift 2; tokens=$*; else tokens='2048 2000'; fi
case $shape in
  llama-1.1b) kv_bytes=22528 vocabulary=32000 ;; # 22 layers x (K and V) x 4 heads x 64 x 2 bytes
  llama-8b) kv_bytes=131072 vocabulary=32000 ;;  # 32 layers x (K and V) x 8 heads x 128 x 2 bytes
  llama-15m) kv_bytes=6912 vocabulary=32000 ;;   # 6 layers x (K and V) x 6 heads x 48 x 2 bytes
  *) echo "restore.sh: unknown shape '$shape'; llama-1.1b, llama-8b or llama-15m" >&2; exit 2 ;;
esac
model=$("$build/bench/make_model" "$shape")
cache=$(mktemp -d "${TMPDIR:-/tmp}/hearth-bench-XXXXXX")
trap 'rm -rf "$cache"' EXIT
for n in $tokens; do
  rm -rf "$cache/kv"
  "$build/bench/restore_bench" "$model" "$n" "$cache/kv" $kv_bytes $vocabulary
done
