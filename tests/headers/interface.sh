#!/bin/sh
# interface.sh - the public interface is the one that tests/headers/abi.txt lists
#
#   interface.sh COMPILER LIBHEARTH SOURCE [--write]
#
# The list has each exported function, each struct with its size and the offset of each field, and each enumeration with
# its numbers. Lines may be added to it. A line that changes or goes breaks programs and bindings. --write writes the
# list anew.
set -eu
compiler=$1 library=$2 source=$3
list=$source/tests/headers/abi.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo '#include <hearth.h>' >"$work/header.c"
"$compiler" -I "$source/include" -g -gdwarf-4 -fno-eliminate-unused-debug-types -c "$work/header.c" -o "$work/header.o"
{
  nm -D --defined-only "$library" | awk '$2 == "T" {print "function " $3}' | sed 's/@@*HEARTH/ HEARTH/' | grep ' hearth_'
  # Of each entry of the debugging information: its depth, its tag, and the attributes that are listed.
  readelf --debug-dump=info "$work/header.o" | awk '
    function value(line) { sub(/^.*\): /, "", line); sub(/^[^:]*: /, "", line); sub(/[ \t]+$/, "", line); return line }
    function flush() {
      if (tag == "structure_type") { scope = name; if (scope ~ /^hearth_/) print "struct " scope " " size }
      else if (tag == "enumeration_type") scope = "enum"
      else if (tag == "member" && scope ~ /^hearth_/) print "field " scope "." name " " offset
      else if (tag == "enumerator" && name ~ /^HEARTH_/) print "number " name " " number
      else if (depth == 1) scope = ""
      tag = name = size = offset = number = ""
    }
    /Abbrev Number/ { flush(); match($0, /<[0-9a-f]+>/); depth = substr($0, RSTART + 1, RLENGTH - 2) + 0
                      tag = ""; if (match($0, /DW_TAG_[a-z_]+/)) tag = substr($0, RSTART + 7, RLENGTH - 7) }
    /DW_AT_name/ { name = value($0) }
    /DW_AT_byte_size/ { size = value($0) }
    /DW_AT_data_member_location/ { offset = value($0) }
    /DW_AT_const_value/ { number = value($0) }
    END { flush() }'
} | LC_ALL=C sort -u >"$work/now"
grep -q '^struct hearth_request ' "$work/now" || { echo "nothing was read of the header"; exit 1; }
if [ "${4:-}" = --write ]; then cp "$work/now" "$list"; exit 0; fi
diff "$list" "$work/now" && exit 0
echo "the interface is not that of tests/headers/abi.txt. If lines were only added, and fields only at the end of their"
echo "struct, write it anew: tests/headers/interface.sh $compiler $library $source --write"
exit 1
