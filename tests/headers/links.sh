#!/bin/sh
# links.sh - the links of a document, for the tests of the sources and of an installed tree. Sourced.

# links FILE: the targets of its relative links, outside of code
links() {
  awk '/^```/ { code = !code } !code' "$1" | sed 's/`[^`]*`//g' | grep -oE '\]\([^)]+\)|(src|srcset)="[^"]+"' |
    sed 's/^](\(.*\))$/\1/; s/^[a-z]*="\(.*\)"$/\1/' | grep -vE '^[a-z]+:' || true
}
