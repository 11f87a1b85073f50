#!/bin/sh
# index_bench.sh - run the index's benchmark with few rows in a directory that goes away
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" 1000 "$directory/cache"
