#!/bin/sh
# A deterministic model over HTTP: a reply whose worker is killed in the middle is the whole one, bit for bit.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

"$hearth" run "$tiny" -p x -n 1 --deterministic --gpu-layers 0 -c 512 >"$work/out" 2>"$work/err" || {
  grep -q 'own attention' "$work/err" || fail "a deterministic run says $(cat "$work/err")"
  exit 0 # this build cannot promise it
}
"$build/bench/make_adapter" -g 1 "$tiny" "$work/all.gguf"
run() { "$hearth" run "$tiny" -p x -n 1 --deterministic --gpu-layers 0 -c 512 "$@" >"$work/out" 2>"$work/err"; }
run --lora "a=$work/all.gguf" --lora "b=$work/all.gguf:0" || fail "an adapter that waits is refused: $(cat "$work/err")"
run --lora "a=$work/all.gguf" --lora "b=$work/all.gguf" --lora-init-without-apply || fail "adapters that wait are refused: $(cat "$work/err")"
refuse 1 'one adapter at most' run "$tiny" -p x --deterministic --gpu-layers 0 -c 512 --lora "a=$work/all.gguf" --lora "b=$work/all.gguf"

serve -m "$tiny" --deterministic --gpu-layers 0 -t 2 -c 4096 --cache "$work/kv"
body='{"prompt":"Once upon a time","n_predict":400,"ignore_eos":true,"temperature":0.9,"seed":7,"n_probs":3,"stream":true}'
# What a stream says of each token: its id and its log probabilities, as they were written.
tokens() { sed -n 's/^data: {/{/p' "$1" | node -e '
  const lines = require("fs").readFileSync(0, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line))
  for (const line of lines)
    for (const one of line.completion_probabilities ?? []) console.log(JSON.stringify(one))'; }

curl -sSN -m 240 -d "$body" -o "$work/whole" "$url/completion" || fail "curl: no stream"
tokens "$work/whole" >"$work/expected"
expect "tokens of a whole reply" "$(wc -l <"$work/expected" | tr -d ' ')" 400
grep -q '"logprob":-[0-9]' "$work/expected" || fail "no log probabilities: $(head -n 2 "$work/expected")"

for at in 20 200; do
  worker=$(serve_processes | grep -vx "$server_pid")
  rm -f "$work/stream"
  curl -sSN -m 240 -d "$body" -o "$work/stream" "$url/completion" 2>"$work/err" &
  client=$!
  until [ "$(grep -c '^data: ' "$work/stream" 2>/dev/null || true)" -ge "$at" ] 2>/dev/null; do
    kill -0 "$client" 2>/dev/null || fail "the reply ended before its worker was killed: $(cat "$work/err")"
  done
  kill -KILL "$worker"
  wait "$client" || fail "curl: $(cat "$work/err")"
  tokens "$work/stream" >"$work/got"
  cmp "$work/got" "$work/expected" || fail "a reply whose worker was killed differs: $(diff "$work/got" "$work/expected" | head -n 4)"
  [ "$(serve_processes | grep -vx "$server_pid")" != "$worker" ] || fail "the worker was not killed"
done
serve_stop
