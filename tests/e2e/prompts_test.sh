#!/bin/sh
# Several prompts from a file: every prompt gets the same reply as alone, results come in the order of the file, a
# failure names its line and stops no other prompt, and Ctrl-C prints the finished part.
. "$(dirname "$0")/lib.sh"

greedy="--temp 0 --ignore-eos -n 24 --no-cache"
i=0
while [ $i -lt 20 ]; do echo "$(words $((5 + i % 7 * 9)) $i)"; i=$((i + 1)); done >"$work/prompts"

# members NAME FILE: that member of every line of JSON, one a line (numbers, and texts without quotes)
members() { sed "s/.*[{,]\"$1\":\"\{0,1\}\([^\",}]*\)\"\{0,1\}[,}].*/\1/" "$2"; }
# Each line is a JSON object.
check_json() {
  node -e 'require("fs").readFileSync(process.argv[1], "utf8").trimEnd().split("\n").forEach(line => JSON.parse(line))' "$1" ||
    fail "not every line of $1 is JSON"
}
# texts FILE: the member "text" of every line
texts() { node -e 'require("fs").readFileSync(process.argv[1], "utf8").trimEnd().split("\n").forEach(line => console.log(JSON.stringify(JSON.parse(line).text)))' "$1"; }

# Alone, one after another, and together: the same texts in the same order.
while IFS= read -r prompt; do
  # shellcheck disable=SC2086
  "$hearth" run stub: -p "$prompt" $greedy --json -q | tr -d '\n'; echo
done <"$work/prompts" >"$work/alone.jsonl"
texts "$work/alone.jsonl" >"$work/alone"
for parallel in 1 3 8 128; do
  # shellcheck disable=SC2086
  "$hearth" run stub: --prompts "$work/prompts" --parallel $parallel $greedy --json >"$work/together.jsonl" 2>"$work/err" ||
    fail "--parallel $parallel: $(cat "$work/err")"
  check_json "$work/together.jsonl"
  texts "$work/together.jsonl" >"$work/together"
  cmp "$work/alone" "$work/together" || fail "--parallel $parallel changed replies or their order"
  expect "indices with --parallel $parallel" "$(members index "$work/together.jsonl" | tr '\n' ' ')" "$(seq -s ' ' 0 19) "
  expect "lines said with --parallel $parallel" "$(wc -l <"$work/err")" 1
  grep -q '20 prompts in .* 20 done, 0 failed' "$work/err" || fail "the summary says: $(cat "$work/err")"
done
# shellcheck disable=SC2086
"$hearth" run stub: --prompts - $greedy --json -q <"$work/prompts" >"$work/stdin.jsonl" 2>"$work/err"
texts "$work/stdin.jsonl" | cmp "$work/alone" - || fail "prompts from standard input give other replies"
[ ! -s "$work/err" ] || fail "-q says: $(cat "$work/err")"
"$hearth" run "$tiny" --prompts "$work/prompts" -n 8 --json -q >"$work/tiny.jsonl"
check_json "$work/tiny.jsonl"
expect "lines on the tiny model" "$(wc -l <"$work/tiny.jsonl")" 20

# As text: headings with the lines, empty ones skipped, a last line without its end, lines of other systems.
printf 'one\r\n\n   \nfour\nfive' >"$work/few"
# shellcheck disable=SC2086
"$hearth" run stub: --prompts "$work/few" $greedy -q >"$work/out"
expect "headings" "$(grep '^===' "$work/out" | tr '\n' ' ')" "=== line 1 === line 4 === line 5 "
# shellcheck disable=SC2086
"$hearth" run stub: -p one $greedy -q >"$work/one"
grep -q -F -x -e "$(cat "$work/one")" "$work/out" || fail "'one' with a line end of two bytes is another prompt"
: >"$work/nothing"
"$hearth" run stub: --prompts "$work/nothing" >"$work/out" 2>"$work/err" || fail "an empty file is an error"
[ ! -s "$work/out" ] || fail "an empty file has results"

# JSON lines: options of the request by name; the command line has the others.
cat >"$work/lines.jsonl" <<'END'
{"prompt": "one", "id": "first", "n_predict": 3}
{"id": {"of": [2]}, "prompt": "one", "temperature": 0, "ignore_eos": true, "top_k": 40, "seed": 7, "stop": ["\u0000"]}
{"prompt": "one", "n_predict": 5, "stop": [], "logit_bias": {"65": -1.5, "66": "-inf"}, "priority": -3, "session_id": null}
not JSON
{"prompt": "one", "top_p": 1.5}
{"prompt": "one", "n_predict": "many"}
{"prompt": "one", "colour": "red"}
{"n_predict": 3}
["prompt"]
{"prompt": "one", "ignore_eos": 1}
{"prompt": ""}
{"prompt": "last", "n_predict": 4, "id": 12}
END
status=0
"$hearth" run stub: --prompts-json "$work/lines.jsonl" --temp 0 --ignore-eos -n 9 --no-cache --json >"$work/out.jsonl" 2>"$work/err" || status=$?
expect "exit code with bad lines" "$status" 1
check_json "$work/out.jsonl"
expect "results" "$(wc -l <"$work/out.jsonl")" 12
expect "the first's tokens" "$(sed -n 1p "$work/out.jsonl" | grep -o '"completion_tokens":[0-9]*')" '"completion_tokens":3'
expect "the last's tokens" "$(sed -n 12p "$work/out.jsonl" | grep -o '"completion_tokens":[0-9]*')" '"completion_tokens":4'
sed -n 1p "$work/out.jsonl" | grep -q '"id":"first"' || fail "the id is not given back"
sed -n 12p "$work/out.jsonl" | grep -q '"id":12' || fail "the id is not given back as it was"
said() { # said LINE PATTERN: standard error and the result name the line and what is wrong
  grep -q -E -e "lines.jsonl, line $1.*$2" "$work/err" || fail "nothing says '$2' of line $1: $(cat "$work/err")"
  sed -n "$1p" "$work/out.jsonl" | grep -q -E -e "\"error\":.*line $1.*$2" || fail "the result of line $1 does not say '$2'"
}
said 2 'stop.*zero byte'
said 3 'session_id must be'
said 4 'not a line of JSON'
said 5 "top_p is '1.5'; it must be a number from 0 to 1"
said 6 "n_predict is 'many'; it must be a whole number"
said 7 'colour is no option'
said 8 '"*prompt.* must be there'
said 9 'JSON object'
said 10 'ignore_eos must be true or false'
said 11 'prompt is empty'
grep -q '12 prompts in .* 2 done, 10 failed' "$work/err" || fail "the summary says: $(tail -n 1 "$work/err")"

# One prompt that is too long, in the middle: the others get their replies.
{ sed -n 1,5p "$work/prompts"; words 6000 3; echo; sed -n 6,10p "$work/prompts"; } >"$work/mixed"
status=0
# shellcheck disable=SC2086
"$hearth" run stub: --prompts "$work/mixed" $greedy --json >"$work/mixed.jsonl" 2>"$work/err" || status=$?
expect "exit code with a prompt too long" "$status" 1
grep -q 'mixed, line 6: the prompt ([0-9]* tokens) exceeds' "$work/err" || fail "the long prompt is not named: $(cat "$work/err")"
sed 6d "$work/mixed.jsonl" >"$work/others.jsonl"
texts "$work/others.jsonl" >"$work/others"
sed -n 1,10p "$work/alone" | cmp - "$work/others" || fail "a prompt that failed changed others"

# Unreadable files.
status=0
"$hearth" run stub: --prompts "$work/nowhere" >/dev/null 2>"$work/err" || status=$?
expect "exit code without the file" "$status" 1
grep -q nowhere "$work/err" || fail "the missing file is not named: $(cat "$work/err")"
status=0
"$hearth" run stub: --prompts "$work" >/dev/null 2>"$work/err" || status=$?
expect "exit code with a directory" "$status" 1
printf 'a\000b\nfine\n' >"$work/zero"
status=0
# shellcheck disable=SC2086
"$hearth" run stub: --prompts "$work/zero" $greedy --json >"$work/out" 2>"$work/err" || status=$?
expect "exit code with a zero byte" "$status" 1
grep -q 'line 1.*zero byte' "$work/err" || fail "the zero byte is not named: $(cat "$work/err")"
expect "results beside a zero byte" "$(wc -l <"$work/out")" 2

# The first result leaves before a slow writer ends the file.
mkfifo "$work/pipe"
# shellcheck disable=SC2086
"$hearth" run stub: --prompts "$work/pipe" $greedy --json -q >"$work/slow.jsonl" &
pid=$!
exec 9>"$work/pipe"
echo "the first" >&9
await "the first result, before the second prompt" of "$pid" test -s "$work/slow.jsonl"
echo "the second" >&9
exec 9>&-
wait $pid || fail "prompts from a pipe failed"
expect "results from a pipe" "$(wc -l <"$work/slow.jsonl")" 2

# A reader that goes away ends the run.
i=0
while [ $i -lt 500 ]; do echo "prompt $i"; i=$((i + 1)); done >"$work/500"
# shellcheck disable=SC2086
{ status=0; "$hearth" run stub: --prompts "$work/500" $greedy --json 2>"$work/err" || status=$?; echo $status >"$work/status"; } | head -n 1 >/dev/null
expect "exit code without a reader" "$(cat "$work/status")" 1
expect "messages without a reader" "$(grep -c 'cannot write to standard output' "$work/err")" 0

# Ctrl-C: the run prints the finished part and has its exit code.
rm -f "$work/pipe"; mkfifo "$work/pipe"
"$hearth" run stub:delay_us=300,n_ctx_train=100000 -c 100000 --prompts "$work/pipe" --temp 0 -n 2000 --ignore-eos --no-cache \
  --parallel 2 --json >"$work/cut.jsonl" 2>"$work/err" &
pid=$!
exec 9>"$work/pipe"
echo '1' >&9; echo '2' >&9; echo '3' >&9; echo '4' >&9 # and the file stays open
await "a result" of "$pid" test -s "$work/cut.jsonl"
kill -INT $pid
status=0; wait $pid || status=$?
exec 9>&-
expect "exit code after Ctrl-C" "$status" 130
check_json "$work/cut.jsonl"
grep -q 'interrupted; 4 prompts in' "$work/err" || fail "Ctrl-C is not told: $(cat "$work/err")"
