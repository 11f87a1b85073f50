#!/bin/sh
# Limits of the front: memory for bodies, access to the operators' address, keys across a reload, and the last reply.
. "$(dirname "$0")/lib.sh"
. "$source/tests/e2e/serve.sh"

count='{"model":"tiny","messages":[{"role":"user","content":"Hello"}]}'

serve -m "tiny=$tiny" --start on-demand --admin 127.0.0.1:0 --cors-origin '*' --body-bytes-max 1M --bodies-bytes-max 1M
admin=http://127.0.0.1:$(sed -n 2p "$work/port")

# One body holds all memory for bodies: the front asks other clients to come again.
ask 200 "$url/v1/messages/count_tokens" -d "$count"
mkfifo "$work/body"
curl -s -o /dev/null -T - -X POST "$url/v1/messages/count_tokens" <"$work/body" &
holder=$!
exec 3>"$work/body"
head -c 600000 /dev/zero >&3
code_of_count() { curl -s -o "$work/reply" -w '%{http_code}' "$url/v1/messages/count_tokens" -d "$count"; }
is_refused() { case $(code_of_count) in 503|529) ;; *) false ;; esac; }
await "the refusal of a body beyond the memory of bodies" is_refused
metric() { curl -s "$admin/metrics" | sed -n "s/^$1 //p"; }
await "its connection and the one that asks" gives 2 metric hearth_http_connections # which needs no body
kill "$holder"
wait "$holder" || true
exec 3>&-
has overloaded # the refusal is an API's
await "its end" gives 1 metric hearth_http_connections
ask 200 "$url/v1/messages/count_tokens" -d "$count"

# A page in a browser cannot give orders at the operators' address, even if it may call the API.
ask 403 -X POST -H 'Origin: http://evil.example' "$admin/admin/drain"
ask 403 -X OPTIONS -H 'Origin: http://evil.example' -H 'Access-Control-Request-Method: POST' "$admin/admin/models"
! grep -qi access-control "$work/head" || fail "the operators' address allows calls from pages"
ask 200 -H 'Origin: http://app.example' "$url/v1/models"
grep -qi '^access-control-allow-origin: http://app.example' "$work/head" || fail "the API does not allow calls from pages"
ask 200 "$admin/admin/models"
# Methods are compared whole; paths have a limit.
ask 204 -X OPTIONS -H 'Origin: http://app.example' "$url/completion"
ask 405 -X OPTIONSX -H 'Origin: http://app.example' "$url/completion"
ask 405 -X POSTS "$url/completion" -d '{}'
ask 501 -X OPTIONSXXXXXXXXXXXXXXXXXXXX "$url/completion"
long=$(head -c 5000 /dev/zero | tr '\0' x)
ask 404 "$url/v1/models/$long"
grep -q '"model_not_found"\|not_found' "$work/reply" || fail "a long path gives $(cat "$work/reply")"
ask 414 "$url/v1/models/$long$long$long$long$long$long$long"
grep -q '"code": *414\|larger\|longer' "$work/reply" || fail "a line that is too long gives $(cat "$work/reply")"
# Nor can a page whose own name leads to this address, with any origin.
ask 403 -H 'Host: evil.example' "$admin/admin/config"
ask 200 -H 'Host: evil.example' "$admin/metrics"
ask 200 -H 'Host: localhost:1' "$admin/admin/config"
ask 200 -H 'Host: [::1]:1' "$admin/admin/config"

# The workers' shared secret is on no page and on no command line.
serve_stop
serve -m "tiny=$tiny" --cache-salt hush --admin 127.0.0.1:0 --connections-max 2 2>/dev/null
admin=http://127.0.0.1:$(sed -n 2p "$work/port")
ask 200 "$admin/admin/config"
! grep -q hush "$work/reply" || fail "the page of the options shows the salt"
ask 200 "$admin/admin/models"
worker=$(grep -o '"pid": *[0-9]*' "$work/reply" | head -n 1 | grep -o '[0-9]*')
if [ -r "/proc/$worker/cmdline" ]; then
  ! tr '\0' ' ' <"/proc/$worker/cmdline" | grep -q hush || fail "the worker's command line shows the salt"
  tr '\0' ' ' <"/proc/$worker/environ" | grep -q hush || fail "the worker did not get its salt"
fi
# Without keys the front answers only under local names, with the origin of a page and without.
ask 403 -H 'Host: evil.example' "$url/v1/models"
grep -q -e '--cors-origin https://evil.example' "$work/reply" || fail "the refusal does not say how to allow the name: $(cat "$work/reply")"
ask 200 -H 'Host: evil.example' "$url/health"
ask 403 -H 'Host: evil.example' -H 'Origin: http://evil.example' "$url/v1/models"
ask 200 -H 'Host: localhost:5' -H 'Origin: http://localhost:5' "$url/v1/models"
# A client that holds all connections does not lock operators out.
holders=
mkfifo "$work/silence"
exec 3<>"$work/silence" # it never ends
is_full() { # a holder that was refused, since an earlier connection was not over yet, is followed by another
  curl -s -o /dev/null -X POST -T - "$url/v1/messages/count_tokens" <&3 &
  holders="$holders $!"
  [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/models")" = 000 ]
}
await "the refusal of a connection beyond all" is_full
ask 200 "$admin/health"
for holder in $holders; do kill "$holder" 2>/dev/null || true; wait "$holder" || true; done
exec 3>&-

# A compressed reply has its header; an error with only a status of HTTP has that status in its body, too.
ask 415 -H 'Content-Encoding: gzip' "$url/completion" -d '{"prompt":"x","n_predict":1}'
grep -q "'gzip'" "$work/reply" && grep -q '"code": *415' "$work/reply" || fail "a compressed body gives $(cat "$work/reply")"
ask 405 -X DELETE "$url/completion"
grep -q '"code": *405' "$work/reply" || fail "another method gives $(cat "$work/reply")"
ask 200 -H 'Content-Encoding: identity' "$url/v1/messages/count_tokens" -d "$count"
ask 200 -I "$url/props?model=tiny"
! grep -qi '^content-length: 0' "$work/head" || fail "HEAD tells another length than GET"

# The order to end gets an answer, even if the server is idle.
serve_stop
serve -m "tiny=$tiny" --start on-demand --admin 127.0.0.1:0 2>/dev/null
admin=http://127.0.0.1:$(sed -n 2p "$work/port")
ask 202 -X POST "$admin/admin/drain"
status=0; wait "$server_pid" || status=$?
server_pid=
expect "how the server ended" "$status" 0

# A reload changes no addresses, so it does not remove the keys that protect the old ones.
"$hearth" key new --name a --file "$work/keys" >"$work/key"
config() { printf 'listen = "%s:0"\n%s\nmodel tiny { path = "%s"; start = on-demand }\n' "$1" "$2" "$tiny" >"$work/hearth.conf"; }
config 0.0.0.0 "keys = \"$work/keys\""
serve_listening --config "$work/hearth.conf"
ask 401 "$url/v1/models"
refuse_reload() { # TEXT: that the log has then
  kill -HUP "$server_pid"
  heard "$work/log" "$1"
}
config 127.0.0.1 ''
refuse_reload 'keys are taken away, and addresses changed'
ask 401 "$url/v1/models"
config 127.0.0.1 "keys = \"$work/keys\""
reload
config 127.0.0.1 ''
: >"$work/log"
refuse_reload 'keys are taken away, and addresses changed'
ask 401 "$url/v1/models"
config 0.0.0.0 'allow_public_without_keys = true'
reload
ask 200 "$url/v1/models"
serve_stop

# A client that leaves early pays for the tokens of its reply.
rm -f "$work/keys"
key=$("$hearth" key new --name b --tokens-per-minute 10 --file "$work/keys" 2>/dev/null)
serve -m slow=stub:delay_us=20000 --keys "$work/keys"
curl -sN -m 2 -H "Authorization: Bearer $key" "$url/v1/completions" \
  -d '{"model":"slow","prompt":"Once upon a time there was a king","stream":true,"ignore_eos":true,"max_tokens":1000}' >"$work/stream" || true
grep -q '^data: ' "$work/stream" || fail "no stream came"
heard "$work/log" 'client_gone'
ask 429 -H "Authorization: Bearer $key" "$url/v1/completions" -d '{"model":"slow","prompt":"Once","max_tokens":1}'
serve_stop
