#!/bin/sh
# The example program works, is at most 40 lines long, and is warm the second time.
. "$(dirname "$0")/lib.sh"

[ "$(wc -l <"$source/examples/complete.c")" -le 40 ] || fail "the example is longer than 40 lines"
prompt=$(words 60)
"$build/examples/complete" "$tiny" "$prompt" >"$work/cold" || fail "the example failed"
grep -q '^\[0 of [0-9]* prompt tokens' "$work/cold" || fail "the first run says: $(tail -n 1 "$work/cold")"
"$build/examples/complete" "$tiny" "$prompt" >"$work/warm" || fail "the example failed when warm"
grep -q '^\[\([0-9]*\) of \1 prompt tokens' "$work/warm" || fail "the second run says: $(tail -n 1 "$work/warm")"
expect "its text" "$(head -n -1 "$work/warm")" "$(head -n -1 "$work/cold")"
status=0
"$build/examples/complete" "$work/nowhere.gguf" x >/dev/null 2>"$work/err" || status=$?
expect "exit code for a missing model" "$status" 1
grep -q nowhere.gguf "$work/err" || fail "the error does not name the model: $(cat "$work/err")"
