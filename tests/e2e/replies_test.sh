#!/bin/sh
# Options of a request in `hearth run`: several replies, limits, probabilities, sessions.
. "$(dirname "$0")/lib.sh"

run() { "$hearth" run stub: --no-cache "$@" 2>"$work/err" || fail "run $*: $(cat "$work/err")"; }
prompt=$(words 30)

# Several replies equal those of single runs with consecutive seeds, as text and as JSON.
for seed in 5 6 7; do run -p "$prompt" -n 12 --ignore-eos --seed $seed -q; done >"$work/single"
run -p "$prompt" -n 12 --ignore-eos --seed 5 --n 3 >"$work/several"
cmp "$work/single" "$work/several" || fail "--n 3 gives other replies than three runs"
expect "headings" "$(grep -c '^--- reply [123] of 3, seed [567] ---$' "$work/err")" 3
run -p "$prompt" -n 12 --ignore-eos --seed 5 --n 3 --json >"$work/several.jsonl"
expect "lines of JSON" "$(wc -l <"$work/several.jsonl")" 3
node -e '
  const lines = require("fs").readFileSync(process.argv[1], "utf8").trimEnd().split("\n").map(line => JSON.parse(line));
  lines.forEach((reply, i) => { if (reply.index !== i || reply.seed !== 5 + i) process.exit(1); console.log(reply.text); });
' "$work/several.jsonl" | cmp - "$work/single" || fail "--n 3 --json gives other replies"

# The same for prompts of a file with different numbers of replies.
printf '%s\n' '{"prompt": "first", "n": 2, "seed": 8}' '{"prompt": "second"}' '{"prompt": "third", "n": 3}' >"$work/n.jsonl"
run --prompts-json "$work/n.jsonl" -n 6 --ignore-eos --seed 1 --json -q >"$work/out.jsonl"
expect "results" "$(grep -o '"index":[0-9]*' "$work/out.jsonl" | tr '\n' ' ')" \
  '"index":0 "index":0 "index":1 "index":2 "index":2 "index":2 '
expect "seeds" "$(grep -o '"seed":[0-9]*' "$work/out.jsonl" | tr '\n' ' ')" \
  '"seed":8 "seed":9 "seed":1 "seed":1 "seed":2 "seed":3 '

# Begin and end of a reply.
run -p "$prompt" -n 5 --temp 0 --ignore-eos -q >"$work/plain"
run -p "$prompt" -n 5 --temp 0 --ignore-eos -q --echo >"$work/echo"
expect "--echo" "$(cat "$work/echo")" "$prompt$(cat "$work/plain")"
run -p "$prompt" --prefill-only --json >"$work/warm.json"
expect "tokens of --prefill-only" "$(field completion_tokens "$work/warm.json")" 0
"$hearth" run stub: -p "$prompt" --prefill-only -q >"$work/out"
[ ! -s "$work/out" ] || fail "--prefill-only writes something"
"$hearth" run stub: -p "$prompt" -n 1 --temp 0 --json >"$work/hit.json"
expect "hit after --prefill-only" "$(field hit "$work/hit.json")" exact
token=$(printf '%d' "'$(cut -c 3 "$work/plain")") # the stub's tokens are bytes
run -p "$prompt" -n 5 --temp 0 --ignore-eos --stop-token "$token" --json >"$work/stopped.json"
expect "finish with --stop-token" "$(field finish_reason "$work/stopped.json")" stop
case $(cat "$work/plain") in
  "$(field text "$work/stopped.json")"*) ;;
  *) fail "--stop-token changed what came before" ;;
esac
run -p "$prompt" -n 40 --temp 0 --logit-bias 257=+inf --json >"$work/end.json" # the stub's end of a text
expect "finish when the end is all there is" "$(field finish_reason "$work/end.json")" stop
run -p "$prompt" -n 40 --logit-bias 257=50 --min-tokens 7 --temp 0 --json >"$work/late.json"
[ "$(field completion_tokens "$work/late.json")" -ge 7 ] || fail "--min-tokens 7 gave $(field completion_tokens "$work/late.json")"

# Probabilities: an object for each token, the likeliest in order, of the model's own distribution.
run -p "$prompt" -n 4 --temp 0 --ignore-eos --json --logprobs 3 >"$work/logprobs.json"
node -e '
  const reply = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
  const ok = reply.logprobs.length === 4 && reply.logprobs.map(token => token.text).join("") === reply.text &&
    reply.logprobs.every(token => token.top.length === 3 && token.logprob <= 0 && token.top[0].token === token.token &&
      token.top[0].logprob >= token.top[1].logprob && token.top[1].logprob >= token.top[2].logprob);
  process.exit(ok ? 0 : 1);
' "$work/logprobs.json" || fail "the logarithms are $(cat "$work/logprobs.json")"

# A time limit that passes: the finished part, the reason, and exit code 1.
status=0
"$hearth" run stub:delay_us=2000 -p ab --no-cache --temp 0 --ignore-eos -n 4000 --run-timeout-ms 300 --json >"$work/limit.json" \
  2>"$work/err" || status=$?
expect "exit code after a time limit" "$status" 1
grep -q run_timeout_ms "$work/err" || fail "the limit is not named: $(cat "$work/err")"
expect "finish after a time limit" "$(field finish_reason "$work/limit.json")" timed_out

# Two prompts of one session run one after the other; neither is refused.
printf '%s\n' '{"prompt": "a turn", "session_id": "s"}' '{"prompt": "a turn, and more", "session_id": "s"}' >"$work/s.jsonl"
run --prompts-json "$work/s.jsonl" -n 3 --temp 0 --ignore-eos >"$work/out"
grep -q '2 done, 0 failed' "$work/err" || fail "a session's second prompt: $(cat "$work/err")"

# More prompts than the queue holds wait for their turn.
i=0
while [ $i -lt 30 ]; do echo "prompt $i"; i=$((i + 1)); done >"$work/30"
run --prompts "$work/30" -n 3 --temp 0 --queue-max 2 --parallel 4 --n 2 --n-parallel 2 >"$work/out"
grep -q '30 done, 0 failed' "$work/err" || fail "with a short queue: $(cat "$work/err")"

# An unknown strategy names those that exist.
status=0
"$hearth" run stub: -p x --strategy fastest >/dev/null 2>"$work/err" || status=$?
expect "exit code of an unknown strategy" "$status" 1
grep -q 'fastest.*decode_maximal' "$work/err" || fail "an unknown strategy: $(cat "$work/err")"
