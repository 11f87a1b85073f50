#!/bin/sh
# Ctrl-C ends a run cleanly and saves its tokens; kill -9 leaves a cache that needs no repair.
. "$(dirname "$0")/lib.sh"

words 700 >"$work/prompt"
start() { # starts a run in the background, $pid
  rm -f "$work/out"
  "$hearth" run stub:delay_us=300,n_ctx_train=100000 -f "$work/prompt" --temp 0 -c 100000 -n 90000 --ignore-eos >"$work/out" 2>"$work/err" &
  pid=$!
}
await_output() { await "output" of "$pid" test -s "$work/out"; }

start; await_output
kill -INT $pid
status=0; wait $pid || status=$?
expect "exit code after Ctrl-C" "$status" 130
grep -q "finish key [0-9a-f]\{12\}$" "$work/err" || fail "no statistics after Ctrl-C: $(cat "$work/err")"
"$hearth" run stub:delay_us=300,n_ctx_train=100000 -f "$work/prompt" -c 100000 --temp 0 -n 1 --json >"$work/warm.json"
expect "hit after Ctrl-C" "$(field hit "$work/warm.json")" exact

# The second Ctrl-C ends at once, even if the first one has to wait.
start; await_output
kill -INT $pid; kill -INT $pid 2>/dev/null || true
status=0; wait $pid || status=$?
expect "exit code after two Ctrl-C" "$status" 130

# kill -9 at many moments of a run that saves continuously: after these times, whatever it does then.
rm -rf "$cache"
i=0
while [ $i -lt 25 ]; do
  words 500 $((i / 3)) >"$work/prompt"
  "$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 30 -q >/dev/null 2>&1 &
  pid=$!
  sleep "0.$(printf '%02d' $((i % 20 + 3)))"
  kill -9 $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
  i=$((i + 1))
done
for file in "$cache"/rows/*/*.kvc; do
  [ -f "$file" ] || continue
  "$hearth" kvc inspect "$file" >/dev/null || fail "a damaged row is visible after kill -9: $file"
done
"$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 30 --json >"$work/after.json" 2>"$work/err"
"$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 30 --json --no-cache >"$work/alone.json"
expect "text after kill -9" "$(field text "$work/after.json")" "$(field text "$work/alone.json")"
[ ! -s "$work/err" ] || fail "kill -9 left something to complain about: $(cat "$work/err")"
