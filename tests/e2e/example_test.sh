#!/bin/sh
# The example programs work, those in C are at most 40, 60 and 70 lines long, and a prompt is warm the second time.
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

# Several prompts at once: each gets the same reply as alone.
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

# The same replies with a strategy of the program's own.
[ "$(wc -l <"$source/examples/strategy.c")" -le 70 ] || fail "the third example is longer than 70 lines"
"$build/examples/strategy" stub: "The first" "The second" "The third" >"$work/own" || fail "the third example failed"
cmp "$work/all" "$work/own" || fail "with a strategy of its own, prompts get other replies"
status=0
"$build/examples/strategy" stub: fine "" >/dev/null 2>"$work/err" || status=$?
expect "exit code of the third example for an empty prompt" "$status" 1
grep -q 'prompt is empty' "$work/err" || fail "the error of the third example is '$(cat "$work/err")'"

# Python, without a compiler. An interpreter cannot load the runtime of a sanitizer.
if ! ldd "$build/libhearth.so" | grep -q -E 'lib(asan|tsan)'; then
  HEARTH_CACHE=$work/python python3 "$source/examples/streams.py" "$tiny" "$build/libhearth.so" >"$work/python.out" ||
    fail "the Python example failed"
  grep -q "^stats: {'status': 'ok', 'finish': 'length', 'prompt': \([0-9]*\), 'cached': 0, 'reply': 48}" "$work/python.out" ||
    fail "the first reply: $(cat "$work/python.out")"
  grep -q '^cancelled after [0-9]* tokens: cancelled' "$work/python.out" || fail "not cancelled: $(cat "$work/python.out")"
  grep -q "^a prompt that differs: 19 of 40 tokens are known; .* token 19, ' l'" "$work/python.out" ||
    fail "why a prompt missed: $(cat "$work/python.out")"
  grep -q "^again: .*'prompt': \([0-9]*\), 'cached': \1," "$work/python.out" || fail "not warm: $(cat "$work/python.out")"
  status=0
  python3 "$source/examples/streams.py" "$work/nowhere.gguf" "$build/libhearth.so" >"$work/out" 2>"$work/err" || status=$?
  expect "exit code of the Python example for a missing model" "$status" 1
  grep -q nowhere.gguf "$work/err" || fail "its error does not name the model: $(cat "$work/err")"
fi
