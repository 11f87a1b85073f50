#!/bin/sh
# `hearth worker` started by hand: requests with curl, an order to stop, a kill, a new start.
. "$(dirname "$0")/lib.sh"

socket=$work/socket
pid=

stop_worker() {
  [ -z "$pid" ] || { kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true
  pid=
}
stop_all() { stop_worker; }

start_worker() {
  refuse_reports # of a log that the new worker's replaces
  "$hearth" worker --model "$tiny" --name tiny --socket "$socket" --ctx 2048 "$@" 2>"$work/log" &
  pid=$!
  await "a worker that is ready" of "$pid" curl -sf -m 5 -o "$work/health" --unix-socket "$socket" http://worker/health
}

# ask CODE TARGET [CURL OPTIONS]: the body is in $work/out
ask() {
  expected=$1 target=$2
  shift 2
  code=$(curl -sS -m 60 --unix-socket "$socket" -o "$work/out" -w '%{http_code}' "$@" "http://worker$target") ||
    fail "curl $target $*: no answer"
  [ "$code" = "$expected" ] || fail "curl $target $*: $code, expected $expected: $(cat "$work/out")"
}

has() { grep -q -- "$1" "$work/out" || fail "'$1' is not in: $(cat "$work/out")"; }

# Usage.
"$hearth" worker --help >"$work/out" || fail "--help fails"
has 'curl --unix-socket'
"$hearth" worker --help-all >"$work/out" && has '--status-fd' && has '--schema-bytes-max' && has '--policy'
status=0; "$hearth" worker --model "$tiny" 2>"$work/out" || status=$?
expect 'the exit code without --socket' "$status" 2
has '--socket is missing'
status=0; "$hearth" worker --socket "$socket" --model "$work/none.gguf" 2>"$work/out" || status=$?
expect 'the exit code without a model' "$status" 1
has 'none.gguf'
[ ! -e "$socket" ] || fail 'a worker that failed leaves its socket'

start_worker
expect 'the mode of the socket' "$(stat -c %a "$socket" 2>/dev/null || stat -f %Lp "$socket")" 600

# Every API, with curl's default content type.
prompt=$(words 60)
chat="\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"$prompt\"}],\"max_tokens\":6"
ask 200 /v1/chat/completions -d "{$chat,\"temperature\":0}"; has '"object":"chat.completion"'; cp "$work/out" "$work/cold"
ask 200 /v1/chat/completions -d "{$chat,\"stream\":true}"; has 'data: \[DONE\]'
ask 200 /v1/messages -d "{$chat}"; has '"type":"message"'
ask 200 /completion -d "{\"prompt\":\"$prompt\",\"n_predict\":4}"; has '"stop_type":"limit"'
ask 200 /v1/completions -d "{\"model\":\"tiny\",\"prompt\":\"$prompt\",\"max_tokens\":4}"; has text_completion
ask 200 /v1/models; has '"id":"tiny"'
ask 200 /tokenize -d '{"content":"once upon"}'; has '"tokens"'
ask 200 '/admin/explain?endpoint=/v1/chat/completions' -d "{$chat}"; has '"knows_logits":true'
ask 404 /nothing; has not_found
ask 405 /v1/chat/completions; has 'takes POST'
ask 400 /v1/chat/completions -d '{'; has invalid_json
ask 415 /v1/chat/completions -F a=b

# A second worker needs another socket.
status=0; "$hearth" worker --model "$tiny" --socket "$socket" 2>"$work/out" || status=$?
expect 'the exit code of a second worker' "$status" 1
ask 200 /health

# A running reply may end.
curl -sS -m 60 -N --unix-socket "$socket" http://worker/completion \
  -d "{\"prompt\":\"$prompt\",\"n_predict\":200,\"ignore_eos\":true,\"stream\":true}" >"$work/stream" &
reader=$!
await "the stream" of "$reader" test -s "$work/stream"
kill -TERM "$pid"
status=0; wait "$pid" || status=$?
pid=
expect 'the exit code after SIGTERM' "$status" 0
wait "$reader" || fail 'the stream was cut off'
grep -q '"stop_type":"limit"' "$work/stream" || fail "the stream has no end: $(tail -c 500 "$work/stream")"
[ ! -e "$socket" ] || fail 'the socket is still there'

# The next worker has the rows of the last one, also of a killed one.
for signal in KILL TERM; do
  start_worker
  ask 200 /v1/chat/completions -d "{$chat,\"temperature\":0}"
  cached=$(sed 's/.*"cached_tokens":\([0-9]*\).*/\1/' "$work/out")
  expect 'tokens from the cache' "$cached" "$(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' "$work/out")"
  expect 'the reply' "$(sed 's/.*"content":"\([^"]*\)".*/\1/' "$work/out")" \
    "$(sed 's/.*"content":"\([^"]*\)".*/\1/' "$work/cold")"
  kill -$signal "$pid"
  status=0; wait "$pid" 2>/dev/null || status=$?
  pid=
done
expect 'the exit code after SIGTERM' "$status" 0

# The second signal ends the worker at once.
start_worker
curl -sS -m 60 -N --unix-socket "$socket" http://worker/completion \
  -d "{\"prompt\":\"$prompt\",\"n_predict\":1500,\"ignore_eos\":true,\"stream\":true}" >"$work/stream" 2>/dev/null &
reader=$!
await "the stream" of "$reader" test -s "$work/stream"
kill -TERM "$pid"
await "the end of the socket" not test -e "$socket"
kill -TERM "$pid" 2>/dev/null || true
status=0; wait "$pid" || status=$?
pid=
wait "$reader" || true
[ "$status" = 143 ] || [ "$status" = 0 ] || fail "the exit code after two signals is $status"
