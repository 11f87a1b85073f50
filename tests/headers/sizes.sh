#!/bin/sh
# sizes.sh - no file of src/, tests/ or bench/ is longer than 2,000 lines: a longer one holds more than one idea
set -eu
cd "$1"
find src tests bench -name node_modules -prune -o -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.mjs' -o -name '*.sh' \) -print | sort | xargs awk '
  FNR == 2001 { print FILENAME " is longer than 2,000 lines; split it by idea"; failed = 1 }
  END { if (NR == 0) { print "there is nothing in src/, tests/ or bench/"; failed = 1 } exit failed }'
