#!/bin/sh
# The example programs work, are at most 40 and 60 lines long, and the first is warm the second time.
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

# Several prompts at once: each gets the reply that it gets alone.
[ "$(wc -l <"$source/examples/streams.c")" -le 60 ] || fail "the second example is longer than 60 lines"
streams=$build/examples/streams
"$streams" stub: "The first" "The second" "The third" >"$work/all" || fail "the second example failed"
for prompt in "The first" "The second" "The third"; do "$streams" stub: "$prompt"; done >"$work/each"
cmp "$work/all" "$work/each" || fail "prompts together get other replies than alone"
status=0
"$streams" stub: fine "" >/dev/null 2>"$work/err" || status=$?
expect "exit code for an empty prompt" "$status" 1
grep -q 'prompt is empty' "$work/err" || fail "the error is '$(cat "$work/err")'"
status=0
"$streams" "$work/nowhere.gguf" x >/dev/null 2>"$work/err" || status=$?
expect "exit code of the second example for a missing model" "$status" 1
