#!/bin/sh
# sizes.sh - no file of src/, tests/ or bench/ is longer than 2,000 lines: a longer one holds more than one idea; lines
#   of C and C++, code and comments, end at 120 columns
set -eu
export LC_ALL=C
cd "$1"
find src tests bench -name node_modules -prune -o -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.mjs' -o -name '*.sh' \) -print | sort | xargs awk '
  FNR == 2001 { print FILENAME " is longer than 2,000 lines; split it by idea"; failed = 1 }
  END { if (NR == 0) { print "there is nothing in src/, tests/ or bench/"; failed = 1 } exit failed }'
find src include tests bench examples \( -name node_modules -o -name fixtures \) -prune -o -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) -print | sort | xargs awk '
  { gsub(/[\200-\277]/, "") } # a character is counted once
  length > 120 { print FILENAME ":" FNR ": " length " columns; lines end at 120"; failed = 1 }
  END { if (NR == 0) { print "there is no C"; failed = 1 } exit failed }'
