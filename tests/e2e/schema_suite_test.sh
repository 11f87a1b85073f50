#!/bin/sh
# Grammars of JSON schemas accept no text that the official test suite or a validator calls invalid.
set -eu
build=$1
source=$2
modules=$("$source/scripts/npm.sh" "$source/tests/schemas")
node "$source/tests/schemas/suite.mjs" "$build/tests/schema_tool" "$modules"
