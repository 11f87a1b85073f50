#!/bin/sh
# Responses that are kept in files outlive the server. A response in the background fails when the server is killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

post() { curl -s -H 'content-type: application/json' -d "$2" "$url$1"; }

begin() { serve --model "slow=stub:delay_us=5000" --responses-directory "$work/responses" --ram 64M; }

begin
post /v1/responses '{"input":"Hi","max_output_tokens":8,"temperature":0}' >"$work/first"
id=$(grep -o '"id":"resp_[^"]*' "$work/first" | head -n 1 | cut -d '"' -f 4)
[ -n "$id" ] || fail "no response: $(cat "$work/first")"
case $(ls "$work/responses") in *"$id"*) fail "a file's name tells its response" ;; esac
running=$(post /v1/responses '{"input":"Go on","background":true,"ignore_eos":true}' | grep -o '"id":"resp_[^"]*' | head -n 1 | cut -d '"' -f 4)
expect "what runs" "$(curl -s "$url/v1/responses/$running" | grep -o '"status":"[^"]*' | head -n 1)" '"status":"in_progress'
case $running in "$(printf %.21s "$id")"*) fail "the id of a response can be told from another one's: $id, $running" ;; esac
# Files are written in order: if the last one is there, all are.
n_files() { find "$work/responses" -name '*.hrr' | wc -l; }
await "the files of both" at_least 2 n_files
serve_kill
begin
curl -s "$url/v1/responses/$id" | cmp - "$work/first" || fail "the response was changed by the server's end"
expect "what ran" "$(curl -s "$url/v1/responses/$running" | grep -o '"status":"[^"]*' | head -n 1)" '"status":"failed'
# A response in the background goes on in another worker. Who the workers are is asked before, which can take seconds.
processes=$(serve_processes)
going=$(post /v1/responses '{"input":"Go on","background":true,"ignore_eos":true,"max_output_tokens":400}' | grep -o '"id":"resp_[^"]*' | head -n 1 | cut -d '"' -f 4)
for process in $processes; do [ "$process" = "$server_pid" ] || kill -KILL "$process"; done
is_over() { curl -s "$url/v1/responses/$going" >"$work/going" && ! grep -q '"status":"in_progress"' "$work/going"; }
await "its end" is_over
expect "what went on" "$(grep -o '"status":"[^"]*' "$work/going" | head -n 1)" '"status":"incomplete'
expect "its tokens" "$(grep -o '"output_tokens":[0-9]*' "$work/going")" '"output_tokens":400'
grep -q 'goes on in another worker' "$work/log" || fail "no worker was replaced: $(cat "$work/log")"
tokens() { grep -o '"input_tokens":[0-9]*' | cut -d : -f 2; }
more=$(post /v1/responses "{\"input\":\"And?\",\"max_output_tokens\":4,\"previous_response_id\":\"$id\"}" | tokens)
[ "$more" -gt "$(tokens <"$work/first")" ] || fail "the second response does not go on from the first: $more tokens"
expect "its removal" "$(curl -s -X DELETE "$url/v1/responses/$id")" "{\"id\":\"$id\",\"object\":\"response\",\"deleted\":true}"
expect "what was removed" "$(curl -s -o "$work/gone" -w '%{http_code}' "$url/v1/responses/$id")" 404
serve_stop
