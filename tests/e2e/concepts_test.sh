#!/bin/sh
# The example of docs/concepts.md runs as it is written, and prints the lines of the page, except for times.
. "$(dirname "$0")/lib.sh"

page=$source/docs/concepts.md
mkdir "$work/checkout" "$work/temporary"
ln -s "$build" "$work/checkout/build"
ln -s "$source/models" "$work/checkout/models"

# Drops the end of a line of statistics, and all times.
without_times() { sed -E 's/^(hearth: [^;]*;[^;]*;).*/\1/; s/[0-9.]+ ms/N ms/g'; }

awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on' "$page" >"$work/console"
sed -n 's/^\$ //p' "$work/console" >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 10 ] || fail "the page has no example"
(cd "$work/checkout" && TMPDIR=$work/temporary sh -u "$work/commands") >"$work/out" 2>&1 || fail "the last command of the example fails"
grep -v '^\$ ' "$work/console" | without_times >"$work/written"
without_times <"$work/out" >"$work/happened"
# The text of replies may differ between processors; all other lines are the same everywhere.
grep -v '^ "' "$work/written" >"$work/written.same"
awk '/^hearth: / || /^rows/ || /^  [a-z]/ || /^(prompt|known|reason|left at|none of)/ || !NF' "$work/happened" \
  >"$work/happened.same"
diff "$work/written.same" "$work/happened.same" || fail "the example of docs/concepts.md goes otherwise"
[ -z "$(ls "$work/temporary")" ] || fail "the example leaves files behind: $(ls "$work/temporary")"
