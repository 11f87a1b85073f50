#!/bin/sh
# Operators hear of models and requests as things happen; whoever comes back misses nothing; the end of the server is
# the end of the stream. They see the most used prefixes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

root=$("$hearth" key new --name root --admin --file "$work/keys" 2>/dev/null)
alice=$("$hearth" key new --name alice --file "$work/keys" 2>/dev/null)
admin="x-api-key: $root" client="x-api-key: $alice"

listener=
stop_all() {
  if [ -n "$listener" ]; then kill "$listener" 2>/dev/null || true; fi
  serve_kill
}
hushed() { # FILE PATTERN
  ! grep -q -e "$2" "$1" || fail "'$2' is heard: $(cat "$1")"
}
chat() { # MODEL PROMPT
  ask 200 "$url/v1/completions" -H "$client" -d "{\"model\":\"$1\",\"prompt\":\"$2\",\"max_tokens\":3}"
}

serve -m "one=$tiny" -m "two=$tiny" --start on-demand --models-max 1 --cache "$work/cache" --keys "$work/keys" \
  --keep-alive-ms 50
ask 403 "$url/admin/events" -H "$client"
ask 401 "$url/admin/events"
ask 405 -X POST "$url/admin/events" -H "$admin"

# The state, and then all that happens.
hear "$work/events" "$url/admin/events" -H "$admin"
heard "$work/events" '^event: snapshot'
heard "$work/events" '^data: {.*"name":"one".*"state":"stopped"'
heard "$work/events" '^:$'
secret="tell nobody of me: $(seq -s ' ' 100)"
chat one "$secret"
heard "$work/events" '^event: load$'
heard "$work/events" '^data: {"model":"one","pid":[0-9]*,"generation":1,"time":"20'
heard "$work/events" '^event: ready$'
heard "$work/events" '^event: request$'
heard "$work/events" '"model":"one","endpoint":"/v1/completions","stream":false'
heard "$work/events" '"status":200,.*"cached_tokens":0,"completion_tokens":3,.*"hit":"none".*"miss":"never_seen"'
# A use of the prompt's end would be forgotten if the longer row, which holds the reply as well, replaced it only then.
is_replaced() {
  ask 200 "$url/metrics" -H "$admin"
  grep -q '^hearth_cache_rows_removed_total{.*model="one".*} 1$' "$work/reply"
}
await "the row of the prompt and its reply, in place of the prompt's" is_replaced
chat one "$secret"
heard "$work/events" '"status":200,.*"cached_tokens":300,"completion_tokens":3,.*"hit":"[a-z]*"'
heard "$work/events" '"prepare_ms":[0-9.e-]*[1-9][0-9.e-]*,"queue_ms":.*"restore_ms":.*"prefill_ms":.*"decode_ms":.*"slot":0'
is_used() { ask 200 "$url/admin/prefixes?model=one" -H "$admin" && grep -q '"uses":1' "$work/reply"; }
await "the use, which a writer thread counts" is_used
has '"model":"one","rows":[1-9].*"prefixes":\[{"key":"[0-9a-f]*","tokens":[1-9].*"uses":1,"children":\['
ask 403 "$url/admin/prefixes?model=one" -H "$client"
ask 409 "$url/admin/prefixes?model=two" -H "$admin"
has 'the model is not loaded'
chat two x
heard "$work/events" '^data: {"model":"one","reason":"room","again":false'
heard "$work/events" '^event: unloaded$'
hushed "$work/events" 'tell nobody'

# A worker dies.
curl -s "$url/admin/models" -H "$admin" >"$work/out"
kill -KILL "$(value 'r.models.find((m) => m.name == "two").pid')"
heard "$work/events" '^event: death$'
heard "$work/events" '^data: {"model":"two","cause":"killed by signal 9.*"state":"waiting","deaths":1,"restart_in_ms"'

# A listener that was away gets the rest, and no other snapshot.
kill "$listener"
wait "$listener" 2>/dev/null || true
last=$(sed -n 's/^id: //p' "$work/events" | tail -n 1)
chat two away
hear "$work/again" "$url/admin/events" -H "$admin" -H "Last-Event-ID: $last"
heard "$work/again" '^event: request_end$'
hushed "$work/again" '^event: snapshot'
hushed "$work/again" "^id: $last\$"

# The server's end: its workers' last events, and a whole stream.
chat two last
serve_stop
wait "$listener" || fail "the stream was cut off"
listener=
heard "$work/again" '^data: {"model":"two","reason":"shutdown"'
[ "$(tail -n 3 "$work/again" | head -n 1)" = 'event: unloaded' ] || fail "the end is: $(tail -n 5 "$work/again")"
