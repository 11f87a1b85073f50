#!/bin/sh
# Drafts: the replies are those without, in fewer evaluations; who asks for them, and who counts them.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# Eight rows of this model's weights have the bits of one (docs/engine.md), so seven tokens of a draft change nothing.
prompt='The king said: the fox ran over the hill. The queen said: the fox ran over the hill. The king said: the fox'
run() { "$hearth" run "$tiny" --no-cache -p "$prompt" -n 120 --ignore-eos --json "$@" >"$work/out" 2>"$work/err" || fail "run $*: $(cat "$work/err")"; }
for sampling in '--temp 0' '--temp 0.7 --seed 3' '--temp 0.2 --seed 4 --repeat-penalty 1.1'; do
  run $sampling
  plain=$(value r.text)
  expect "drafts that nobody asked for" "$(value r.draft_tokens)" 0
  run $sampling --draft-max 7
  expect "the text of $sampling with drafts" "$(value r.text)" "$plain"
done

# A grammar that repeats itself.
grammar='root ::= ("the fox ran over the hill and the fox sat down. "){6}'
run --temp 0 --grammar "$grammar"
plain=$(value r.text) evaluations=$(value r.decode_evaluations)
run --temp 0 --grammar "$grammar" --draft-max 7
expect "the text of a grammar with drafts" "$(value r.text)" "$plain"
[ "$(value r.draft_accepted_tokens)" -gt 0 ] || fail "no draft was right: $(cat "$work/out")"
expect "evaluations and accepted tokens" "$(value 'r.decode_evaluations + r.draft_accepted_tokens')" "$evaluations"

# A draft model: the model itself, which is always right, and another one, which is not.
make() { "$build/bench/make_model" "$@" 2>/dev/null || fail "make_model $*"; }
target=$(make tiny-llama-wide --type q8_0) other=$(make tiny-llama)
run --temp 0.7 --seed 3
plain=$(value r.text)
run --temp 0.7 --seed 3 --draft-model "$tiny" --draft-max 7
expect "the text with the model as its own draft model" "$(value r.text)" "$plain"
[ "$(value r.draft_accepted_tokens)" -gt 0 ] || fail "no guess of the model itself is right: $(cat "$work/out")"
tiny_was=$tiny tiny=$target
run --temp 0
plain=$(value r.text)
run --temp 0 --draft-model "$other" --draft-max 7
expect "the text with another draft model" "$(value r.text)" "$plain"
[ "$(value r.draft_tokens)" -gt 0 ] || fail "the other draft model guesses nothing: $(cat "$work/out")"
tiny=$tiny_was
refuse 1 "cannot draft for 'hearth-tiny': it has another vocabulary" run "$tiny" --no-cache -p x --draft-model "$other"
refuse 1 "the draft model.*nowhere.gguf" run "$tiny" --no-cache -p x --draft-model "$work/nowhere.gguf"

# A server whose model makes drafts; requests that want others.
refuse 2 "draft-max.* is '15'; it must be a whole number from 0 to 14" serve -m "tiny=$tiny" --draft-max 15 --check
serve -m "tiny=$tiny" -m window=stub:kind=window --draft-max 7 --cache "$work/kv" --ram 32M --admin 127.0.0.1:0
admin=http://127.0.0.1:$(sed -n 2p "$work/port")
grep -q "model 'window' makes no drafts" "$work/log" || fail "nobody says that a model makes no drafts"
post() { curl -sS -m 60 -o "$work/out" -d "$2" "$url$1" || fail "$1 gives nothing"; }
body='"prompt":"'$prompt'","n_predict":120,"ignore_eos":true,"temperature":0,"grammar":"root ::= (\"the fox ran over the hill and the fox sat down. \"){6}"'
post /completion "{$body,\"speculative.n_max\":0}"
plain=$(value r.content)
expect "drafts that the request does not want" "$(value r.timings.draft_n)" undefined
post /completion "{$body}"
expect "the reply with drafts" "$(value r.content)" "$plain"
[ "$(value r.timings.draft_n_accepted)" -gt 0 ] || fail "no draft was right: $(cat "$work/out")"
[ "$(value r.timings.draft_n)" -ge "$(value r.timings.draft_n_accepted)" ] || fail "more was right than guessed"
drafted=$(value r.timings.draft_n) accepted=$(value r.timings.draft_n_accepted)
post /completion "{$body,\"speculative.n_max\":16,\"speculative.n_min\":1}" # longer than the longest, as llama-server's default
drafted=$((drafted + $(value r.timings.draft_n))) accepted=$((accepted + $(value r.timings.draft_n_accepted)))
post /completion "{$body,\"speculative.n_max\":-2}"
expect "the status of a negative length" "$(value r.error.code)" 400
curl -sS -m 60 "$admin/metrics" >"$work/metrics"
grep -qx "hearth_draft_tokens_total{model=\"tiny\"} $drafted" "$work/metrics" || fail "drafts are not counted: $(grep draft "$work/metrics")"
grep -qx "hearth_draft_accepted_tokens_total{model=\"tiny\"} $accepted" "$work/metrics" || fail "accepted tokens are not counted"
serve_stop

# A server with a draft model: its worker is killed, and the reply is the same again, with its prompt from rows.
serve -m "tiny=$tiny" --draft-model "$tiny" --draft-max 7 --cache "$work/kv2" --ram 32M
body='"prompt":"'$(words 400)'","n_predict":120,"ignore_eos":true,"temperature":0.7,"seed":5'
post /completion "{$body,\"speculative.n_max\":0}"
plain=$(value r.content)
post /completion "{$body}"
expect "the reply with a draft model" "$(value r.content)" "$plain"
kill -KILL "$(serve_processes | grep -vx "$server_pid")"
post /completion "{$body}"
expect "the reply after the worker was killed" "$(value r.content)" "$plain"
[ "$(value r.timings.cache_n)" -gt 256 ] || fail "the prompt is cold after a kill: $(cat "$work/out")"
[ "$(value r.timings.draft_n)" -gt 0 ] || fail "the draft model guesses nothing after a kill: $(cat "$work/out")"
serve_stop
