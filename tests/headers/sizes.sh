#!/bin/sh
# sizes.sh - no file of src/ is longer than 800 lines: a longer one holds more than one idea
set -eu
cd "$1/src"
find . -name '*.c' -o -name '*.h' -o -name '*.cpp' | sort | xargs awk '
  FNR == 801 { print "src" substr(FILENAME, 2) " is longer than 800 lines; split it by idea"; failed = 1 }
  END { if (NR == 0) { print "there is nothing in src/"; failed = 1 } exit failed }'
