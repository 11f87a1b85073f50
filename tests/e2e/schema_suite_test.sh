#!/bin/sh
# schema_suite_test.sh - grammars of JSON schemas have no text that the official test suite, or a validator, calls
# invalid
set -eu
build=$1
source=$2
modules=$("$source/tests/clients/install.sh" "$source/tests/schemas")
node "$source/tests/schemas/suite.mjs" "$build/tests/schema_tool" "$modules"
